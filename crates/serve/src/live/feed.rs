//! Samples, a second apart: the newest for all who watch, and those of ten minutes as lines for who begins to.

use bytes::Bytes;
use serde_json::Value;
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};
use tokio::sync::watch;

/// Lines that are kept.
const KEPT: usize = 600;

/// The samples of a server.
pub struct LiveFeed {
    newest: watch::Sender<Bytes>,
    lines: Mutex<VecDeque<Value>>,
}

impl Default for LiveFeed {
    fn default() -> LiveFeed {
        LiveFeed { newest: watch::Sender::new(Bytes::new()), lines: Mutex::default() }
    }
}

impl LiveFeed {
    /// A sample, as charts need it and as it is sent.
    pub fn push(&self, line: Value, sample: Bytes) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT {
            lines.pop_front();
        }
        lines.push_back(line);
        drop(lines);
        self.newest.send_replace(sample);
    }

    /// The lines so far, and all samples from the next one on.
    pub fn follow(&self) -> (Vec<Value>, watch::Receiver<Bytes>) {
        let receiver = self.newest.subscribe();
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        (lines.iter().cloned().collect(), receiver)
    }
}
