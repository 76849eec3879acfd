//! Who looks on while a step runs: times of its operators.

use crate::op::Op;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Is told of each operator of a step as it ends. Called on the thread that submits: it neither blocks nor allocates.
pub trait Watch {
    /// The operator of this `index` in the plan ran from `begin` to `end`.
    fn op(&mut self, index: usize, begin: Instant, end: Instant);
}

/// Seconds and calls of each kind of operator.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Time and calls by operator name.
    pub by_op: BTreeMap<&'static str, (Duration, usize)>,
}

impl Profile {
    /// The sums of times that operators of a plan took, each with the number of its calls.
    pub fn of(ops: &[Op], times: &[(Duration, usize)]) -> Profile {
        let mut profile = Profile::default();
        for (op, (time, calls)) in ops.iter().zip(times).filter(|(_, (_, calls))| *calls > 0) {
            let entry = profile.by_op.entry(op.name()).or_default();
            *entry = (entry.0 + *time, entry.1 + calls);
        }
        profile
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
