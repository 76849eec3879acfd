//! One match: an operator to the backend's method.

use crate::{
    backend::{Ops, Result},
    batch::Batch,
    op::Op,
};

/// Runs `ops` in order.
///
/// # Errors
/// The first one that an operator returns.
pub fn walk<O: Ops>(machine: &mut O, ops: &[Op], b: &Batch) -> Result<()> {
    ops.iter().try_for_each(|op| run(machine, op, b))
}

/// Runs one operator.
///
/// # Errors
/// What the operator returns.
pub fn run<O: Ops>(m: &mut O, op: &Op, b: &Batch) -> Result<()> {
    match op {
        Op::Embed(o) => m.embed(b, o),
        Op::Positions(o) => m.positions(b, o),
        Op::Normalize(o) => m.normalize(b, o),
        Op::HeadNorm(o) => m.head_norm(b, o),
        Op::Linear(o) => m.linear(b, o),
        Op::Project(o) => m.project(b, o),
        Op::LinearAdd(o) => m.linear_add(b, o),
        Op::NormAdd(o) => m.norm_add(b, o),
        Op::Add(o) => m.add(b, o),
        Op::Copy(o) => m.copy(b, o),
        Op::Activate(o) => m.activate(b, o),
        Op::Glu(o) => m.glu(b, o),
        Op::Gate(o) => m.gate(b, o),
        Op::Apply(o) => m.apply(b, o),
        Op::Rotate(o) => m.rotate(b, o),
        Op::Attend(o) => m.attend(b, o),
        Op::LatentAttend(o) => m.latent_attend(b, o),
        Op::Experts(o) => m.experts(b, o),
        Op::Conv(o) => m.conv(b, o),
        Op::DeltaRule(o) => m.delta_rule(b, o),
        Op::Scan(o) => m.scan(b, o),
        Op::GatedNorm(o) => m.gated_norm(b, o),
        Op::LowRank(o) => m.low_rank(b, o),
        Op::Select(o) => m.select(b, o),
    }
}
