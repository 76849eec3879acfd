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

/// What a worker tells.
pub enum JobNews {
    /// The answer to the line at this place among those that are left.
    Answer(usize, String),
    /// Something that a person should know.
    Note(String),
    /// Why no more lines can be answered.
    End(CliError),
}

/// What workers share.
#[derive(Clone)]
pub struct JobLines {
    lines: Arc<Vec<BatchLine>>,
    next: Arc<AtomicUsize>,
    news: Sender<JobNews>,
}

impl JobLines {
    /// The next line that nobody has taken, with its place.
    pub fn next(&self) -> Option<(usize, &BatchLine)> {
        let place = self.next.fetch_add(1, SeqCst);
        Some((place, self.lines.get(place)?))
    }

    /// Tells it. False where nobody listens any more.
    pub fn tell(&self, news: JobNews) -> bool {
        self.news.send(news).is_ok()
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

    /// Has `start` begin so many workers for the lines that are left, and writes their answers.
    ///
    /// # Errors
    /// Those of `start`, of a worker that ends the job, or of the file of answers.
    pub fn run(mut self, start: impl FnOnce(JobLines, usize) -> Result<()>) -> Result<()> {
        let (done, all) = (self.out.written(), self.lines.len());
        if done > 0 {
            note(&format!("{done} of {all} are answered already"));
        }
        if done < all {
            let (news, receive) = mpsc::channel();
            let lines = Arc::new(self.lines.split_off(done));
            start(JobLines { lines, next: Arc::default(), news }, self.parallel.min(all - done))?;
            interrupt::set(On::Catch);
            let written = self.write(&receive, all);
            interrupt::set(On::Exit);
            written?;
        }
        let (good, refused) = self.out.counts();
        note(&format!("{good} answered, {refused} refused: {}", self.out.path().display()));
        Ok(())
    }

    /// Writes answers in order, each as soon as those before it are there.
    fn write(&mut self, news: &Receiver<JobNews>, total: usize) -> Result<()> {
        let first = self.out.written();
        let (bar, mut early) = (Bar::steps("requests"), BTreeMap::new());
        bar.at(first as u64, total as u64);
        while self.out.written() < total {
            let ended = match news.recv_timeout(GLANCE) {
                Ok(JobNews::Answer(place, line)) => {
                    early.insert(first + place, line);
                    None
                }
                Ok(JobNews::Note(text)) => {
                    bar.aside(|| note(&text));
                    None
                }
                Ok(JobNews::End(e)) => Some(e),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(fault()),
            };
            while let Some(line) = early.remove(&self.out.written()) {
                self.out.write(&line)?;
                bar.at(self.out.written() as u64, total as u64);
            }
            let stopped = interrupt::hit().then_some(CliError::Reported(interrupt::CODE));
            if let Some(e) = ended.or(stopped) {
                drop(bar);
                note(&format!(
                    "{} of {total} are written: the same command goes on from there",
                    self.out.written()
                ));
                return Err(e);
            }
        }
        Ok(())
    }
}

fn fault() -> CliError {
    let text = "a fault inside Lamina, please report it: a request has ended without an answer";
    lamina::Error::Runtime(text.into()).into()
}
