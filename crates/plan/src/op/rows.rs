//! Operators over single rows: look-ups, residuals, nonlinearities, selection.

use super::{
    ColumnRange,
    Operand::{self, *},
    Operands,
};
use crate::{
    batch::Batch,
    slot::{Slot, WeightId},
};
use lamina_base::formula::{Act, QueryScale};

/// `out = scale * table[token]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Embed {
    /// `[vocab, width]`.
    pub table: WeightId,
    /// Factor.
    pub scale: f32,
    /// Result.
    pub out: Slot,
}

impl Operands for Embed {
    fn operands(&self) -> Vec<Operand> {
        vec![Weight(self.table), Write(self.out)]
    }
}

/// `out` = the numbers that the batch has beside each row ([`Batch::features`]): hidden rows of another model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feature {
    /// Result, as wide as the numbers.
    pub out: Slot,
}

impl Operands for Feature {
    fn operands(&self) -> Vec<Operand> {
        vec![Write(self.out)]
    }
}

/// `out = [a | b]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Concat {
    /// First part of each row.
    pub a: Slot,
    /// What stands behind it.
    pub b: Slot,
    /// Result, as wide as both.
    pub out: Slot,
}

impl Operands for Concat {
    fn operands(&self) -> Vec<Operand> {
        vec![Read(self.a), Read(self.b), Write(self.out)]
    }
}

/// `x += table[index]`: what a row gets for where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Positions {
    /// `[indices, width]`.
    pub table: WeightId,
    /// What the table is indexed by.
    pub by: PlaceIndex,
    /// Changed in place.
    pub x: Slot,
}

/// Index of a row by where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceIndex {
    /// Its position on the first axis.
    Position {
        /// Added to the position.
        offset: usize,
    },
    /// Its segment (BERT's token types).
    Segment,
}

impl PlaceIndex {
    /// The index of batch row `row`.
    pub fn of(self, b: &Batch, row: usize) -> usize {
        match self {
            PlaceIndex::Position { offset } => b.positions[row][0] as usize + offset,
            PlaceIndex::Segment => b.segments[row] as usize,
        }
    }
}

impl Operands for Positions {
    fn operands(&self) -> Vec<Operand> {
        vec![Weight(self.table), Change(self.x)]
    }
}

/// `into += scale * x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Add {
    /// Input.
    pub x: Slot,
    /// Factor.
    pub scale: f32,
    /// Changed in place.
    pub into: Slot,
    /// Columns of both.
    pub columns: ColumnRange,
}

impl Operands for Add {
    fn operands(&self) -> Vec<Operand> {
        vec![Read(self.x), Change(self.into)]
    }
}

/// `out = x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copy {
    /// Input.
    pub x: Slot,
    /// Result, of the same width and rows.
    pub out: Slot,
}

impl Operands for Copy {
    fn operands(&self) -> Vec<Operand> {
        vec![Read(self.x), Write(self.out)]
    }
}

/// `out` gets some of the rows of `x`: of all rows those that are selected, of selected ones those that want logits.
/// The kinds of the two slots' rows say which.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Select {
    /// Input.
    pub x: Slot,
    /// Result, of the same width.
    pub out: Slot,
}

impl Operands for Select {
    fn operands(&self) -> Vec<Operand> {
        vec![Read(self.x), Write(self.out)]
    }
}

/// `out = act(gate) * up`, or `act(gate)` without `up`; `out` may be `gate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activate {
    /// Argument of the nonlinearity.
    pub gate: Slot,
    /// Factor.
    pub up: Option<Slot>,
    /// Nonlinearity.
    pub act: Act,
    /// Result.
    pub out: Slot,
    /// Columns of all three.
    pub columns: ColumnRange,
}

impl Operands for Activate {
    fn operands(&self) -> Vec<Operand> {
        [Read(self.gate), self.columns.write(self.out)].into_iter().chain(self.up.map(Read)).collect()
    }
}

/// `x *= sigmoid(gate)`; a gate of width 1 scales the row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// Changed in place.
    pub x: Slot,
    /// Argument of the sigmoid.
    pub gate: Slot,
}

impl Operands for Gate {
    fn operands(&self) -> Vec<Operand> {
        vec![Read(self.gate), Change(self.x)]
    }
}

/// Simple in-place functions of one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Map {
    /// `x * s`.
    Scale(f32),
    /// `c * tanh(x / c)`.
    Softcap(f32),
    /// Cut to what lies between; no bound is above the other, and none is NaN.
    Clip {
        /// The lower bound.
        low: f32,
        /// The upper one.
        high: f32,
    },
    /// Scaled by the row's position.
    Temperature(QueryScale),
}

/// A [`Map`] over a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apply {
    /// Changed in place.
    pub x: Slot,
    /// Function.
    pub map: Map,
}

impl Operands for Apply {
    fn operands(&self) -> Vec<Operand> {
        vec![Change(self.x)]
    }
}
