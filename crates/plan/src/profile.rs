//! Where the time of a step goes, by operator.

use crate::op::Op;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Seconds and calls of each kind of operator.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Time and calls by operator name.
    pub by_op: BTreeMap<&'static str, (Duration, usize)>,
}

impl Profile {
    /// Runs `f` and books its time on `op`.
    pub fn time<T>(&mut self, op: &Op, f: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let out = f();
        let entry = self.by_op.entry(op.name()).or_default();
        entry.0 += start.elapsed();
        entry.1 += 1;
        out
    }

    /// Name, seconds, calls and share of the whole, longest first.
    pub fn rows(&self) -> Vec<(&str, f64, usize, f64)> {
        let all: f64 = self.by_op.values().map(|(d, _)| d.as_secs_f64()).sum();
        let row =
            |(n, (d, c)): (_, &(Duration, usize))| (n, d.as_secs_f64(), *c, d.as_secs_f64() / all.max(1e-12));
        let mut rows: Vec<_> = self.by_op.iter().map(|(n, v)| row((*n, v))).collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        rows
    }
}
