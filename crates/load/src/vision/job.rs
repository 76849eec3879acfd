//! A picture or a sound in a prompt: its rows are made when somebody asks for them.

use super::{ears::Ears, eyes::Eyes, picture_rows::PictureRows, sense::Sense};
use crate::error::{Error, Result};
use lamina_engine::{EncodedRows, EngineError, Name, RowSource};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

/// Called when rows are there, or cannot be made.
pub(super) type Ready = Box<dyn Fn() + Send + Sync>;

/// Takes a job in whose rows are wanted.
pub(super) type Ask<S> = Box<dyn Fn(Weak<EncodeJob<S>>) + Send + Sync>;

/// A picture whose rows somebody may want.
pub type PictureJob = EncodeJob<Eyes>;

/// A sound whose rows somebody may want.
pub type SoundJob = EncodeJob<Ears>;

/// What a sense takes, whose rows somebody may want.
pub struct EncodeJob<S: Sense> {
    id: Name,
    input: Arc<S::Input>,
    ask: Ask<S>,
    ready: Ready,
    state: Mutex<JobState<S>>,
    me: Weak<EncodeJob<S>>,
}

enum JobState<S: Sense> {
    /// Nobody has asked for the rows.
    New,
    /// They are on their way.
    Asked,
    Done(Result<MadeRows<S>>),
}

/// Rows that are there, and what they cost.
pub(super) struct MadeRows<S: Sense> {
    pub rows: Arc<S::Rows>,
    /// Time in which they were made; none where they were kept.
    pub time: Option<Duration>,
}

impl<S: Sense> EncodeJob<S> {
    pub(super) fn new((id, input): (Name, Arc<S::Input>), ask: Ask<S>, ready: Ready) -> Arc<EncodeJob<S>> {
        let state = Mutex::new(JobState::New);
        Arc::new_cyclic(|me| EncodeJob { id, input, ask, ready, state, me: me.clone() })
    }

    /// What names it.
    pub fn id(&self) -> &Name {
        &self.id
    }

    pub(super) fn input(&self) -> &S::Input {
        &self.input
    }

    /// The rows, or why there are none; none until then. The first call asks for them.
    pub(super) fn get(&self) -> Option<Result<Arc<S::Rows>>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            JobState::Done(done) => {
                return Some(done.as_ref().map(|made| made.rows.clone()).map_err(Error::clone));
            }
            JobState::Asked => return None,
            JobState::New => *state = JobState::Asked,
        }
        drop(state);
        (self.ask)(self.me.clone());
        None
    }

    /// True while somebody beside the encoder's thread, which holds it once, has it.
    pub(super) fn is_wanted(&self) -> bool {
        self.me.strong_count() > 1
    }

    /// Time in which its rows were made; none where nothing was, since they were kept or the cache has what stands for them.
    pub fn time(&self) -> Option<Duration> {
        match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            JobState::Done(Ok(made)) => made.time,
            _ => None,
        }
    }

    /// Notes what came of it.
    pub(super) fn end(&self, done: Result<MadeRows<S>>) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = JobState::Done(done);
        (self.ready)();
    }
}

impl<S: Sense> fmt::Debug for EncodeJob<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&S::told(&self.input))
    }
}

impl<S: Sense> RowSource for EncodeJob<S> {
    fn rows(&self) -> Option<Result<Arc<dyn EncodedRows>, EngineError>> {
        let failed = |e: Error| match e {
            Error::OutOfMemory(text) => EngineError::OutOfMemory(text),
            e => EngineError::Runtime(e.to_string()),
        };
        Some(self.get()?.map(|rows| rows as Arc<dyn EncodedRows>).map_err(failed))
    }
}

impl EncodedRows for PictureRows {
    fn numbers(&self) -> &[f32] {
        &self.rows
    }

    fn deep(&self) -> &[Vec<f32>] {
        &self.deep
    }
}
