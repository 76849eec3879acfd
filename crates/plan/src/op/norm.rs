//! Norms: of rows, of heads, with residuals and with gates.

use super::{
    Add, ColumnRange, Fused,
    Operand::{self, *},
    Operands, Ops, operands,
};
use crate::{
    batch::Batch,
    error::Result,
    slot::{Slot, WeightId},
};
use lamina_base::formula::NormKind;

/// A norm with its weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormOp {
    /// Formula.
    pub kind: NormKind,
    /// Added to the variance.
    pub eps: f32,
    /// Factor, one per column; none means 1.
    pub weight: Option<WeightId>,
    /// Offset, one per column.
    pub bias: Option<WeightId>,
}

impl NormOp {
    /// The weights that there are.
    pub(super) fn weights(&self) -> [Option<WeightId>; 2] {
        [self.weight, self.bias]
    }
}

/// `out = norm(x)`; `x` and `out` may be the same slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalize {
    /// Input.
    pub x: Slot,
    /// Formula and weights.
    pub norm: NormOp,
    /// Result.
    pub out: Slot,
}

impl Operands for Normalize {
    fn operands(&self) -> Vec<Operand> {
        operands(&[Read(self.x), Write(self.out)], self.norm.weights())
    }
}

/// Norm over each of `heads` equal pieces of a row, in place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadNorm {
    /// Changed in place.
    pub x: Slot,
    /// Pieces.
    pub heads: usize,
    /// Formula and weights.
    pub norm: NormOp,
    /// The weight has a row per head instead of one for all.
    pub weight_per_head: bool,
}

impl Operands for HeadNorm {
    fn operands(&self) -> Vec<Operand> {
        operands(&[Change(self.x)], self.norm.weights())
    }
}

/// Norm with a SiLU gate, in place, over `groups` pieces of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GatedNorm {
    /// Changed in place.
    pub x: Slot,
    /// Gate, as wide as `x`.
    pub gate: Slot,
    /// Pieces with a norm of their own.
    pub groups: usize,
    /// The weight has a row per piece instead of one for all.
    pub weight_per_group: bool,
    /// Formula and weights.
    pub norm: NormOp,
    /// Gate before the norm (Mamba-2) instead of after (gated delta net).
    pub gate_first: bool,
}

impl Operands for GatedNorm {
    fn operands(&self) -> Vec<Operand> {
        operands(&[Read(self.gate), Change(self.x)], self.norm.weights())
    }
}

/// `into += scale * norm(x)`. Meaning: norm in place, then add.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormAdd {
    /// Input, overwritten.
    pub x: Slot,
    /// Formula and weights.
    pub norm: NormOp,
    /// Factor on what is added.
    pub scale: f32,
    /// Changed in place.
    pub into: Slot,
}

impl Operands for NormAdd {
    fn operands(&self) -> Vec<Operand> {
        operands(&[Change(self.x), Change(self.into)], self.norm.weights())
    }
}

impl Fused for NormAdd {
    fn meaning<M: Ops + ?Sized>(&self, m: &mut M, b: &Batch) -> Result<()> {
        m.normalize(b, &Normalize { x: self.x, norm: self.norm, out: self.x })?;
        m.add(b, &Add { x: self.x, scale: self.scale, into: self.into, columns: ColumnRange::All })
    }
}
