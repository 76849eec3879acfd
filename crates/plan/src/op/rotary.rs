//! Rotary position embedding.

use super::{
    Operand::{self, *},
    Operands,
};
use crate::slot::Slot;

/// Angles of a rotary embedding (arXiv 2104.09864), in pairs `(i, i + dim/2)` of a head.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeTable {
    /// Dimensions of a head that turn; the rest pass.
    pub dim: usize,
    /// Angle per position of each of the `dim / 2` pairs.
    pub freqs: Vec<f32>,
    /// Used instead of `freqs` by sequences longer than the original context (longrope).
    pub long: Option<LongTable>,
    /// Factor on cosine and sine (yarn, longrope).
    pub magnitude: f32,
    /// Axis of the position, 0 to 2, that turns each pair (mrope, arXiv 2409.12191); pairs behind the end turn by the
    /// first. A text's positions are the same on all axes.
    pub axes: Vec<u8>,
}

impl RopeTable {
    /// Axis of the position that turns pair `i`.
    pub fn axis(&self, i: usize) -> usize {
        self.axes.get(i).map_or(0, |&axis| axis.into())
    }
}

/// Second set of frequencies for long sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct LongTable {
    /// Angles per position.
    pub freqs: Vec<f32>,
    /// Prompts longer than this, and positions from this one on, use them.
    pub original_context: usize,
}

/// Rotary embedding of every head of a row, in place, in pairs `(i, i + dim/2)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotate {
    /// Changed in place.
    pub x: Slot,
    /// Heads in a row.
    pub heads: usize,
    /// First dimension that turns, inside each head.
    pub start: usize,
    /// Index into [`crate::Plan::ropes`].
    pub rope: usize,
}

impl Operands for Rotate {
    fn operands(&self) -> Vec<Operand> {
        vec![Change(self.x)]
    }
}
