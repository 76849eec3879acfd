//! Times of operators against what they have to move and to calculate.

use super::step_ns;
use crate::trace::{OpView, Trace};
use std::collections::BTreeMap;

/// Time of operators of one name in one step, and what they had to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpLimit {
    /// Name; `step` for all of them together.
    pub name: String,
    /// Operators.
    pub count: usize,
    /// Measured nanoseconds.
    pub ns: u64,
    /// Bytes of weights and cache.
    pub bytes: f64,
    /// Operations of products and attention.
    pub flop: f64,
    /// Nanoseconds that these bytes take at the measured bandwidth; none where that was not measured.
    pub memory_ns: Option<f64>,
}

/// Rows of a step as costs see them.
struct Load {
    all: f64,
    wanted: f64,
    /// Tokens of the sequences, and those that rows see, added up.
    held: f64,
    seen: f64,
}

/// Operators of the step in this row, by name, longest first. Empty where operators were not timed.
pub fn op_limits(trace: &Trace, row: usize) -> Vec<OpLimit> {
    let load = load(trace, row);
    let ops = &trace.events.op;
    let step = trace.events.step.step.get(row).copied();
    let mut found: BTreeMap<&str, OpLimit> = BTreeMap::new();
    for i in (0..ops.step.len()).filter(|&i| Some(ops.step[i]) == step) {
        let Some(op) = trace.plan.ops.get(ops.op[i] as usize) else { continue };
        let entry = found.entry(&op.name).or_default();
        let (bytes, flop) = cost(op, &load);
        entry.count += 1;
        entry.ns += ops.ns[i];
        entry.bytes += bytes;
        entry.flop += flop;
    }
    let bandwidth = trace.run.bandwidth;
    let named = |(name, limit): (&str, OpLimit)| OpLimit {
        name: name.to_owned(),
        memory_ns: bandwidth.map(|b| limit.bytes / b * 1e9),
        ..limit
    };
    let mut all: Vec<_> = found.into_iter().map(named).collect();
    all.sort_by_key(|limit| std::cmp::Reverse(limit.ns));
    all
}

/// The whole step in this row.
pub fn step_limits(trace: &Trace, row: usize) -> OpLimit {
    let load = load(trace, row);
    let costs = trace.plan.ops.iter().map(|op| cost(op, &load));
    let (bytes, flop) = costs.fold((0.0, 0.0), |(b, f), (bytes, flop)| (b + bytes, f + flop));
    OpLimit {
        name: "step".to_owned(),
        count: trace.plan.ops.len(),
        ns: step_ns(trace, row),
        bytes,
        flop,
        memory_ns: trace.run.bandwidth.map(|b| bytes / b * 1e9),
    }
}

fn load(trace: &Trace, row: usize) -> Load {
    let share = &trace.events.share;
    let step = trace.events.step.step.get(row).copied();
    let mut load = Load { all: 0.0, wanted: 0.0, held: 0.0, seen: 0.0 };
    for i in (0..share.step.len()).filter(|&i| Some(share.step[i]) == step) {
        let (start, rows) = (f64::from(share.start[i]), f64::from(share.rows[i] + share.drafts[i]));
        load.all += rows;
        load.wanted += if share.left[i] == 0 { f64::from(1 + share.drafts[i]) } else { 0.0 };
        load.held += start + rows;
        load.seen += rows * start + rows * (rows + 1.0) / 2.0;
    }
    load
}

/// Bytes and operations of an operator.
fn cost(op: &OpView, load: &Load) -> (f64, f64) {
    let rows = if op.rows == "all" { load.all } else { load.wanted };
    let weights = (rows * op.row_bytes as f64).min(op.weight_bytes as f64);
    let bytes = weights + op.token_bytes * load.held;
    (bytes, rows * op.row_flop as f64 + op.token_flop as f64 * load.seen)
}
