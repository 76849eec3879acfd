//! A file of requests that is being answered: workers take its lines, their answers are written in order.

use super::{
    output::BatchOutput,
    request::{BatchLine, lines},
};
use crate::{
    error::{CliError, Result},
    input,
    interrupt::{self, On},
    output::note,
    progress::Bar,
};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    time::Duration,
};

/// How often Ctrl-C is looked for.
const GLANCE: Duration = Duration::from_millis(50);

/// A line's place among those that are left, and its answer, or why no more lines can be answered.
type Answered = (usize, Result<String>);

/// What workers share.
#[derive(Clone)]
pub struct JobLines {
    lines: Arc<Vec<BatchLine>>,
    next: Arc<AtomicUsize>,
    answers: Sender<Answered>,
}

impl JobLines {
    /// The next line that nobody has taken, with its place.
    pub fn next(&self) -> Option<(usize, &BatchLine)> {
        let place = self.next.fetch_add(1, SeqCst);
        Some((place, self.lines.get(place)?))
    }

    /// Tells the answer to the line at `place`, or why the job ends. False where nobody listens any more.
    pub fn tell(&self, place: usize, answer: Result<String>) -> bool {
        self.answers.send((place, answer)).is_ok()
    }
}

/// A file of requests and that of its answers.
pub struct BatchJob {
    lines: Vec<BatchLine>,
    out: BatchOutput,
    parallel: usize,
}

impl BatchJob {
    /// The requests of `input` for the answers of `output`, of which `parallel` run at once; `anew` forgets what `output` has.
    ///
    /// # Errors
    /// When a file cannot be read or written, or `output` holds something else.
    pub fn open(input: &Path, output: &Path, parallel: usize, anew: bool) -> Result<BatchJob> {
        let lines = lines(&input::file_text(input)?);
        let out = BatchOutput::open(output, &lines, anew)?;
        Ok(BatchJob { lines, out, parallel })
    }

    /// Has `start` begin so many workers for the lines that are left, and writes their answers. What `start` gives is asked now
    /// and then for what a person should know.
    ///
    /// # Errors
    /// Those of `start`, of a worker that ends the job, or of the file of answers.
    pub fn run<N: FnMut() -> Option<String>>(
        mut self,
        start: impl FnOnce(JobLines, usize) -> Result<N>,
    ) -> Result<()> {
        let (done, all) = (self.out.written(), self.lines.len());
        if done > 0 {
            note(&format!("{done} of {all} are answered already"));
        }
        if done < all {
            let (answers, receive) = mpsc::channel();
            let lines = Arc::new(self.lines.split_off(done));
            let news =
                start(JobLines { lines, next: Arc::default(), answers }, self.parallel.min(all - done))?;
            interrupt::set(On::Catch);
            let written = self.write(&receive, all, news);
            interrupt::set(On::Exit);
            if written.is_err() {
                let done = self.out.written();
                note(&format!("{done} of {all} are written: the same command goes on from there"));
            }
            written?;
        }
        let (good, refused) = self.out.counts();
        note(&format!("{good} answered, {refused} refused: {}", self.out.path().display()));
        Ok(())
    }

    /// Writes answers in order, each as soon as those before it are there.
    fn write(
        &mut self,
        answers: &Receiver<Answered>,
        total: usize,
        mut news: impl FnMut() -> Option<String>,
    ) -> Result<()> {
        let first = self.out.written();
        let (mut bar, mut early) = (Bar::steps("requests"), BTreeMap::new());
        while self.out.written() < total {
            bar.at(self.out.written() as u64, total as u64);
            match answers.recv_timeout(GLANCE) {
                Ok((place, answer)) => drop(early.insert(first + place, answer?)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(fault()),
            }
            while let Some(line) = early.remove(&self.out.written()) {
                self.out.write(&line)?;
            }
            if let Some(text) = news() {
                bar = Bar::steps("requests");
                note(&text);
            }
            if interrupt::hit() {
                return Err(CliError::Reported(interrupt::CODE));
            }
        }
        Ok(())
    }
}

fn fault() -> CliError {
    let text = "a fault inside Lamina, please report it: a request has ended without an answer";
    lamina::Error::Runtime(text.into()).into()
}
