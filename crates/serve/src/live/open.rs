//! Requests that run.

use crate::log::{LogEntry, RequestLog};
use lamina::Canceller;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Requests that have not ended, by their numbers.
#[derive(Default)]
pub struct OpenRequests(Mutex<BTreeMap<u64, LiveRequest>>);

struct LiveRequest {
    log: RequestLog,
    cancellers: Vec<Canceller>,
}

impl OpenRequests {
    /// A request has come.
    pub fn add(&self, log: &RequestLog) {
        let number = log.entry().number;
        self.held().insert(number, LiveRequest { log: log.clone(), cancellers: vec![] });
    }

    /// A request runs: this ends it.
    pub fn runs(&self, number: u64, cancellers: Vec<Canceller>) {
        if let Some(open) = self.held().get_mut(&number) {
            open.cancellers = cancellers;
        }
    }

    /// A request has ended.
    pub fn remove(&self, number: u64) {
        self.held().remove(&number);
    }

    /// All of them, the oldest first.
    pub fn all(&self) -> Vec<RequestLog> {
        self.held().values().map(|open| open.log.clone()).collect()
    }

    /// Ends the answers of the first request that is meant; false where there is none.
    pub fn stop(&self, meant: impl Fn(&LogEntry) -> bool) -> bool {
        let open = self.held();
        let found = open.values().filter(|o| !o.cancellers.is_empty()).find(|o| meant(&o.log.entry()));
        found.into_iter().flat_map(|open| &open.cancellers).for_each(Canceller::cancel);
        found.is_some()
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<u64, LiveRequest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
