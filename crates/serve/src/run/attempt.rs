//! What of an answer a gateway is told, so that another engine can go on behind it.

use crate::frames::{read_events, write_event};
use bytes::Bytes;
use lamina::{Event, Model};
use std::sync::{
    Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::{Notify, oneshot};

/// An event with the number of the first answer to its prompt.
pub type ToldEvent = (usize, Event);

/// One engine's turn at a request: what was told before it, and what it has to tell. It travels as an extension.
pub struct Attempt {
    /// What engines before it told; the first run takes it.
    before: Mutex<Option<Vec<ToldEvent>>>,
    /// Bytes were told before: what they say is not said again.
    told_before: bool,
    marks: Mutex<Marks>,
    news: Notify,
    is_run: AtomicBool,
    /// What generates the answer, while it does.
    model: OnceLock<Model>,
}

/// What is to be told.
#[derive(Default)]
struct Marks {
    /// Events that were rendered, not yet sent.
    told: Vec<u8>,
    /// An event was taken whose bytes are not all written.
    partial: bool,
}

impl Attempt {
    /// A turn behind these marks; none where one of them is none.
    pub fn new(marks: &[Bytes]) -> Option<Attempt> {
        let events: Vec<Vec<ToldEvent>> =
            marks.iter().map(|mark| read_events(mark)).collect::<Option<_>>()?;
        Some(Attempt {
            before: Mutex::new(Some(events.concat())),
            told_before: !marks.is_empty(),
            marks: Mutex::default(),
            news: Notify::new(),
            is_run: AtomicBool::new(false),
            model: OnceLock::new(),
        })
    }

    /// The request generates an answer, which another engine could go on with.
    pub fn is_run(&self) -> bool {
        self.is_run.load(Ordering::Relaxed)
    }

    /// What is heard once all that is computed by now lies in the folder of the cache; closed where it cannot.
    pub fn kept(&self) -> oneshot::Receiver<()> {
        let (done, kept) = oneshot::channel();
        if let Some(model) = self.model.get() {
            // Whoever asked may be gone.
            model.when_kept(move || _ = done.send(()));
        }
        kept
    }

    /// Waits for something to tell.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    /// Takes what is to be told, where all bytes so far are the bytes of told events.
    pub fn take_mark(&self) -> Option<Vec<u8>> {
        let mut marks = self.marks();
        (!marks.partial).then(|| std::mem::take(&mut marks.told))
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The side of an attempt that a run has; without one nothing is noted.
#[derive(Default)]
pub(super) struct Telling {
    attempt: Option<std::sync::Arc<Attempt>>,
    /// Events that were taken, but whose bytes may not all be written.
    open: Vec<ToldEvent>,
    /// Prompts whose scores came and whose first token did not: a successor computes all of its scores or none.
    scoring: Vec<usize>,
    /// Tokens of a search cannot be gone on behind.
    search: bool,
    /// What was computed last of prompts without a token: told with that, since a prompt alone is no progress of an answer.
    found: Vec<ToldEvent>,
}

impl Telling {
    /// What was told before, and how the rest is told that this model generates.
    pub fn begin(attempt: Option<std::sync::Arc<Attempt>>, model: &Model) -> (Vec<ToldEvent>, Telling) {
        let before = |attempt: &std::sync::Arc<Attempt>| {
            attempt.is_run.store(true, Ordering::Relaxed);
            attempt.model.get_or_init(|| model.clone());
            attempt.before.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
        };
        (attempt.as_ref().map(before).unwrap_or_default(), Telling { attempt, ..Telling::default() })
    }

    /// True where there is somebody to tell.
    pub fn tells(&self) -> bool {
        self.attempt.is_some()
    }

    /// True where bytes of the answer were told already.
    pub fn told_before(&self) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.told_before)
    }

    /// An event of a prompt was taken whose first answer has this number.
    pub fn note(&mut self, first: usize, event: &Event) {
        let Some(attempt) = &self.attempt else { return };
        match event {
            Event::Token(token) => {
                self.search |= token.sampler.is_none();
                self.scoring.retain(|scored| *scored != first);
            }
            Event::Finished { .. } => self.scoring.retain(|scored| *scored != first),
            Event::Prompt { .. } => self.scoring.push(first),
            Event::Progress { .. } | Event::Failed(_) => {}
        }
        self.open.push((first, event.clone()));
        attempt.marks().partial = true;
    }

    /// All events so far are rendered.
    pub fn publish(&mut self) {
        let held = self.open.is_empty() || self.search || !self.scoring.is_empty();
        let Some(attempt) = self.attempt.as_ref().filter(|_| !held) else { return };
        let mut marks = attempt.marks();
        for (first, event) in self.open.drain(..) {
            let before = self.found.extract_if(.., |(of, _)| *of == first);
            match event {
                Event::Progress { .. } => {
                    before.for_each(drop);
                    self.found.push((first, event));
                }
                _ => before.chain([(first, event)]).for_each(|(first, event)| {
                    write_event(&mut marks.told, first, &event);
                }),
            }
        }
        marks.partial = false;
        drop(marks);
        attempt.news.notify_one();
    }

    /// The last bytes follow: they are told with the end.
    pub fn end(&mut self) {
        if let Some(attempt) = &self.attempt {
            attempt.marks().partial = true;
        }
    }
}
