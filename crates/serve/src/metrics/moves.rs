//! Numbers of a gateway: requests that go on at another replica.

use super::{labels::WhyLabel, registrar::Registrar};
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};
use std::time::Instant;

/// Seconds of pauses.
const PAUSES: [f64; 10] = [0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 16.0, 60.0];

/// Numbers of a gateway.
pub struct MoveMetrics {
    moved: Family<WhyLabel, Counter>,
    pauses: Histogram,
}

impl MoveMetrics {
    /// The numbers, on a sheet where there are replicas.
    pub(super) fn new(r: Option<&mut Registrar<'_>>) -> MoveMetrics {
        let (moved, pauses) = (Family::default(), Histogram::new(PAUSES));
        if let Some(r) = r {
            r.add("requests_moved", "Requests that went on at another replica", Family::clone(&moved));
            r.add("move_pause_seconds", "Time in which an answer that moved stood still", pauses.clone());
        }
        MoveMetrics { moved, pauses }
    }

    /// A request leaves a replica.
    pub fn moved(&self, why: &'static str) {
        self.moved.get_or_create(&WhyLabel { why: why.into() }).inc();
    }

    /// An answer has gone on that stood still since then.
    pub fn gone_on(&self, since: Option<Instant>) {
        since.iter().for_each(|since| self.pauses.observe(since.elapsed().as_secs_f64()));
    }
}
