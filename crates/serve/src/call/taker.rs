//! Callers inside the process, who take the pieces of an answer as they are and need no response.

use crate::run::Run;
use std::sync::{Arc, Mutex, PoisonError};

/// Takes the run that a request comes to, in the place of a response with its answer. It travels as an extension.
#[derive(Clone, Default)]
pub struct RunTaker(Arc<Mutex<Option<Run>>>);

impl RunTaker {
    /// Hands a run over.
    pub(super) fn put(&self, run: Run) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(run);
    }

    /// The run, once; none where the request came to none.
    pub fn take(&self) -> Option<Run> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
