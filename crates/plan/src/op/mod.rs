//! The operators of a plan: what a backend has to know, and nothing about models or files.
//!
//! An operator is a struct of numbers, slots and weights. [`crate::for_each_op!`] in `list.rs` names all of them once;
//! [`Op`], [`crate::Ops`], [`run`] and the forwarding of wrappers come from there. Beside its struct each operator says
//! what it touches ([`Operands`]), and a fused one what it means in terms of others ([`Fused`]).

mod adapt;
mod attention;
mod experts;
mod front;
mod linear;
mod list;
mod machine;
mod norm;
mod recurrent;
mod rotary;
mod routing;
mod rows;
mod wrapper;

pub use adapt::{Adapt, AddAdapted, LowRank, Piece};
pub use attention::{Attend, Attention, LatentAttend, Prepare, Store};
pub use experts::{ExpertBiases, Experts, HeldExperts};
pub use front::front;
pub use lamina_base::formula::*;
pub use linear::{Glu, Linear, LinearAdd, Part, Project};
pub use list::{Op, OpRef, run};
pub use machine::{Ops, Queue};
pub use norm::{GatedNorm, HeadNorm, NormAdd, NormOp, Normalize};
pub use recurrent::{Conv, DeltaRule, Scan};
pub use rotary::{LongTable, RopeTable, Rotate};
pub use routing::{ExpertRanks, FewerExperts, Routing};
pub use rows::{
    Activate, Add, Apply, Concat, Copy, Embed, Feature, Gate, Map, PlaceIndex, Positions, Select,
};
pub use wrapper::Wrapper;

use crate::{
    batch::Batch,
    error::Result,
    slot::{Slot, WeightId},
};
use std::ops::Range;

/// Something that an operator touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A slot whose rows are used as they are.
    Read(Slot),
    /// A slot whose rows are all written, whatever was in them.
    Write(Slot),
    /// A slot whose rows are used and written.
    Change(Slot),
    /// A weight.
    Weight(WeightId),
    /// A layer of the cache, by its index.
    Layer(usize),
}

/// Columns of a slot that an operator works on: products of large matrices are cut into ranges of rows, whose results go
/// to some of the columns each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColumnRange {
    /// The whole width.
    #[default]
    All,
    /// Some of them.
    Some {
        /// The first.
        first: usize,
        /// How many.
        count: usize,
    },
}

impl ColumnRange {
    /// The columns of a slot of `width`.
    pub fn range(self, width: usize) -> Range<usize> {
        match self {
            ColumnRange::All => 0..width,
            ColumnRange::Some { first, count } => first..first + count,
        }
    }

    /// The first column.
    pub fn first(self) -> usize {
        self.range(0).start
    }

    /// How an operator touches a slot of which it writes these columns: the others stay as they are.
    fn write(self, slot: Slot) -> Operand {
        if self == ColumnRange::All { Operand::Write(slot) } else { Operand::Change(slot) }
    }
}

/// What an operator touches: memory planning, tiers and tests go by it.
pub trait Operands {
    /// Every operand; a slot may be named more than once.
    fn operands(&self) -> Vec<Operand>;

    /// Slots whose rows the operator uses.
    fn reads(&self) -> Vec<Slot> {
        let read = |o| if let Operand::Read(s) | Operand::Change(s) = o { Some(s) } else { None };
        self.operands().into_iter().filter_map(read).collect()
    }

    /// Slots whose rows are others afterwards.
    fn writes(&self) -> Vec<Slot> {
        let written = |o| if let Operand::Write(s) | Operand::Change(s) = o { Some(s) } else { None };
        self.operands().into_iter().filter_map(written).collect()
    }

    /// Weights that the operator reads.
    fn weights(&self) -> Vec<WeightId> {
        let weight = |o| if let Operand::Weight(w) = o { Some(w) } else { None };
        self.operands().into_iter().filter_map(weight).collect()
    }

    /// The layer of the cache that the operator reads or writes.
    fn layer(&self) -> Option<usize> {
        self.operands().into_iter().find_map(|o| if let Operand::Layer(kv) = o { Some(kv) } else { None })
    }
}

/// An operator that stands for several others, which a backend may run faster in one.
pub trait Fused {
    /// Runs the operators that it stands for: the default body of its method in [`Ops`].
    ///
    /// # Errors
    /// The first one that an operator returns.
    fn meaning<M: Ops + ?Sized>(&self, m: &mut M, b: &Batch) -> Result<()>;
}

/// Operands of a list and of what may be missing.
fn operands(always: &[Operand], weights: impl IntoIterator<Item = Option<WeightId>>) -> Vec<Operand> {
    always.iter().copied().chain(weights.into_iter().flatten().map(Operand::Weight)).collect()
}
