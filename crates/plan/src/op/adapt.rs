//! Low-rank adapters beside matrix products.

use super::{
    ColumnRange, Fused, Linear,
    Operand::{self, *},
    Operands, Ops, Part,
};
use crate::{
    batch::{Batch, BatchSeq},
    error::Result,
    slot::{Slot, WeightId},
};
use std::sync::Arc;

/// Columns that belong to one adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the adapter.
    pub lora: usize,
    /// First column.
    pub start: usize,
    /// Columns: the adapter's rank.
    pub len: usize,
}

/// Multiplies each piece of a row by the scale that the row's sequence uses its adapter with, in place; 0 if not.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapt {
    /// Changed in place.
    pub x: Slot,
    /// Columns of the adapters.
    pub pieces: Arc<[Piece]>,
}

impl Operands for Adapt {
    fn operands(&self) -> Vec<Operand> {
        vec![Change(self.x)]
    }
}

/// `into += scale * x` in rows whose sequence uses an adapter; the others keep their bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AddAdapted {
    /// Input.
    pub x: Slot,
    /// Factor on what is added.
    pub scale: f32,
    /// Changed in place.
    pub into: Slot,
}

impl Operands for AddAdapted {
    fn operands(&self) -> Vec<Operand> {
        vec![Read(self.x), Change(self.into)]
    }
}

/// What low-rank adapters (LoRA, arXiv 2106.09685) add to a matrix product of `x`; those of all adapters are stacked.
///
/// Meaning: nothing when no sequence of the batch uses an adapter; else linear into `low`, [`Adapt`], linear into
/// `wide`, [`AddAdapted`].
#[derive(Clone, Debug, PartialEq)]
pub struct LowRank {
    /// Input of the product.
    pub x: Slot,
    /// `[ranks of all adapters, width of x]`.
    pub down: WeightId,
    /// Holds `x down^T`.
    pub low: Slot,
    /// Columns of `low` by adapter.
    pub pieces: Arc<[Piece]>,
    /// `[width of into, ranks of all adapters]`.
    pub up: WeightId,
    /// Holds `low up^T`.
    pub wide: Slot,
    /// Factor on what is added.
    pub scale: f32,
    /// Changed in place.
    pub into: Slot,
}

impl Operands for LowRank {
    fn operands(&self) -> Vec<Operand> {
        let slots = [Read(self.x), Write(self.low), Write(self.wide), Change(self.into)];
        slots.into_iter().chain([Weight(self.down), Weight(self.up)]).collect()
    }
}

impl Fused for LowRank {
    fn meaning<M: Ops + ?Sized>(&self, m: &mut M, b: &Batch) -> Result<()> {
        if !b.seqs.iter().any(BatchSeq::adapted) {
            return Ok(());
        }
        let linear =
            |x, weight, out| Linear { x, part: Part { weight, bias: None, out, columns: ColumnRange::All } };
        m.linear(b, &linear(self.x, self.down, self.low))?;
        m.adapt(b, &Adapt { x: self.low, pieces: self.pieces.clone() })?;
        m.linear(b, &linear(self.low, self.up, self.wide))?;
        m.add_adapted(b, &AddAdapted { x: self.wide, scale: self.scale, into: self.into })
    }
}
