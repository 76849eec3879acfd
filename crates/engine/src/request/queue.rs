//! How many requests may wait for their first step.

use crate::error::{EngineError, Result};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Counts the requests that wait, on the callers' side: a request that finds the queue full never enters it.
#[derive(Clone)]
pub(crate) struct Queue {
    waiting: Arc<AtomicUsize>,
    limit: usize,
}

impl Queue {
    pub fn new(limit: usize) -> Queue {
        Queue { waiting: Arc::default(), limit }
    }

    /// A place for one more request.
    pub fn enter(&self) -> Result<QueuePlace> {
        let more = |n: usize| (n < self.limit).then_some(n + 1);
        match self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(QueuePlace(self.waiting.clone())),
            Err(_) => Err(EngineError::QueueFull { limit: self.limit }),
        }
    }
}

/// A place in the queue; dropping it makes room for the next request.
pub(crate) struct QueuePlace(Arc<AtomicUsize>);

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
