//! A picture in a prompt: its rows are made when somebody asks for them.

use super::picture_rows::PictureRows;
use crate::error::{Error, Result};
use lamina_engine::{EncodedRows, EngineError, Name, RowSource};
use lamina_image::Picture;
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

/// Called when rows are there, or cannot be made.
pub(super) type Ready = Box<dyn Fn() + Send + Sync>;

/// Takes a picture in whose rows are wanted.
pub(super) type Ask = Box<dyn Fn(Weak<PictureJob>) + Send + Sync>;

/// A picture whose rows somebody may want.
pub struct PictureJob {
    id: Name,
    picture: Arc<Picture>,
    ask: Ask,
    ready: Ready,
    state: Mutex<JobState>,
    me: Weak<PictureJob>,
}

enum JobState {
    /// Nobody has asked for the rows.
    New,
    /// They are on their way.
    Asked,
    Done(Result<MadeRows>),
}

/// Rows that are there, and what they cost.
#[derive(Clone)]
pub(super) struct MadeRows {
    pub rows: Arc<PictureRows>,
    /// Time in which they were made; none where they were kept.
    pub time: Option<Duration>,
}

impl PictureJob {
    pub(super) fn new((id, picture): (Name, Arc<Picture>), ask: Ask, ready: Ready) -> Arc<PictureJob> {
        let state = Mutex::new(JobState::New);
        Arc::new_cyclic(|me| PictureJob { id, picture, ask, ready, state, me: me.clone() })
    }

    /// What names the picture.
    pub fn id(&self) -> &Name {
        &self.id
    }

    pub(super) fn picture(&self) -> &Picture {
        &self.picture
    }

    /// The rows, or why there are none; none until then. The first call asks for them.
    pub(super) fn get(&self) -> Option<Result<Arc<PictureRows>>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            JobState::Done(done) => return Some(done.clone().map(|made| made.rows)),
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
    pub(super) fn end(&self, done: Result<MadeRows>) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = JobState::Done(done);
        (self.ready)();
    }
}

impl fmt::Debug for PictureJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a picture of {}", self.picture.size())
    }
}

impl RowSource for PictureJob {
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
