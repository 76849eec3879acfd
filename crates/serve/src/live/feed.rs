//! Samples, a second apart: the newest for all who watch, and those of ten minutes as lines for who begins to.

use bytes::Bytes;
use serde_json::Value;
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// Lines that are kept.
const KEPT: usize = 600;

/// The samples of a server.
pub struct LiveFeed(Mutex<FeedState>);

struct FeedState {
    /// None once the server drains: it does not wait for those who watch.
    newest: Option<watch::Sender<Bytes>>,
    lines: VecDeque<Value>,
}

impl Default for LiveFeed {
    fn default() -> LiveFeed {
        let newest = Some(watch::Sender::new(Bytes::new()));
        LiveFeed(Mutex::new(FeedState { newest, lines: VecDeque::new() }))
    }
}

impl LiveFeed {
    /// A sample, as charts need it and as it is sent.
    pub fn push(&self, line: Value, sample: Bytes) {
        let mut state = self.state();
        if state.lines.len() == KEPT {
            state.lines.pop_front();
        }
        state.lines.push_back(line);
        if let Some(newest) = &state.newest {
            newest.send_replace(sample);
        }
    }

    /// The lines so far, and all samples from the next one on: none behind [`LiveFeed::end`].
    pub fn follow(&self) -> (Vec<Value>, watch::Receiver<Bytes>) {
        let state = self.state();
        let over = || watch::channel(Bytes::new()).1;
        let receiver = state.newest.as_ref().map_or_else(over, watch::Sender::subscribe);
        (state.lines.iter().cloned().collect(), receiver)
    }

    /// Ends the streams of all who watch.
    pub fn end(&self) {
        self.state().newest = None;
    }

    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
