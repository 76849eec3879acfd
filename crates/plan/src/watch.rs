//! Who looks on while a step runs: times of its operators.

use crate::{
    batch::Batch,
    op::{Attention, Experts, Op},
    stream_counts::StreamCounts,
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Is told of each operator of a step as it ends. Called on the thread that submits: it neither blocks nor allocates.
pub trait Watch {
    /// The operator of this `index` in the plan ran from `begin` to `end`.
    fn op(&mut self, index: usize, begin: Instant, end: Instant);

    /// What was read or sent while the operator ran that was told last, where anything was.
    fn streamed(&mut self, _index: usize, _counts: &StreamCounts) {}

    /// Who looks inside of steps, too; nobody where nothing is said.
    fn inside(&mut self) -> Option<&mut dyn WatchInside> {
        None
    }
}

/// Is told what lies between operators: what the model would have said behind each layer, which experts rows go to, what is
/// attended to. Rows are those of the batch. Such steps take a multiple of their time.
pub trait WatchInside {
    /// True where it wants [`WatchInside::lens`].
    fn wants_lens(&self) -> bool;

    /// True where it wants the keys and queries of attentions.
    fn wants_attention(&self) -> bool;

    /// The logits that the residual of `row` behind a mark would give, by the model's own last operators (logit lens,
    /// nostalgebraist 2020).
    fn lens(&mut self, batch: &Batch, mark: usize, row: usize, logits: &[f32]);

    /// Experts that the operator `index` chose, with their weights: `routing.top_k` places for each row.
    fn experts(&mut self, batch: &Batch, index: usize, o: &Experts, chosen: &[(u32, f32)]);

    /// Keys of all rows of the batch, as they go into layer `kv` of the cache, `[rows x kv_heads * dim]`.
    fn keys(&mut self, batch: &Batch, kv: usize, keys: &[f32]);

    /// Queries of all rows of the batch, as the operator `index` multiplies them with keys.
    fn queries(&mut self, batch: &Batch, index: usize, o: &Attention, queries: &[f32]);
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
