//! Norms of rows, of heads, and with gates: sums run along the last axis, one row or head each.

use crate::{
    machine::{CandleMachine, Compute},
    math::unit,
};
use candle_core::{Result, Tensor};
use lamina_plan::{
    Batch, WeightId,
    op::{GatedNorm, HeadNorm, NormOp, Normalize},
};

impl CandleMachine {
    /// Norm of each of `pieces` equal pieces of every row. Weight and bias have a row for each piece, or one for all.
    fn norm(&self, op: &NormOp, x: &Tensor, pieces: usize, own_weight: bool) -> Result<Tensor> {
        let (rows, width) = x.dims2()?;
        let piece = width / pieces;
        let of = |w: Option<WeightId>| -> Result<Option<Tensor>> {
            let shape = (if own_weight { pieces } else { 1 }, piece);
            self.maybe(w)?.map(|w| w.reshape(shape)).transpose()
        };
        let mut y = unit(&x.reshape((rows, pieces, piece))?, op.kind, op.eps)?;
        if let Some(weight) = of(op.weight)? {
            y = y.broadcast_mul(&weight)?;
        }
        if let Some(bias) = of(op.bias)? {
            y = y.broadcast_add(&bias)?;
        }
        y.reshape((rows, width))
    }
}

impl Compute<Normalize> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Normalize) -> Result<()> {
        let rows = self.norm(&o.norm, &self.get(b, o.x)?, 1, false)?;
        self.set(o.out, rows)
    }
}

impl Compute<HeadNorm> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &HeadNorm) -> Result<()> {
        let rows = self.norm(&o.norm, &self.get(b, o.x)?, o.heads, o.weight_per_head)?;
        self.set(o.x, rows)
    }
}

impl Compute<GatedNorm> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &GatedNorm) -> Result<()> {
        let (x, gate) = (self.get(b, o.x)?, self.get(b, o.gate)?.silu()?);
        let norm = |x: &Tensor| self.norm(&o.norm, x, o.groups, o.weight_per_group);
        let rows = if o.gate_first { norm(&(x * gate)?)? } else { (norm(&x)? * gate)? };
        self.set(o.x, rows)
    }
}
