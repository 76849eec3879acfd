//! Mixture of experts.

use super::{
    Act,
    Operand::{self, *},
    Operands, operands,
    routing::Routing,
};
use crate::slot::{Slot, WeightId};
use std::ops::Range;

/// Experts whose matrices a machine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeldExperts {
    /// All of them.
    #[default]
    All,
    /// Some that follow one another: stacks have these alone, biases are whole. The operator cannot be run by itself, but
    /// in the steps of [`RoutedExperts`](crate::RoutedExperts).
    Some {
        /// The first.
        first: usize,
        /// How many.
        count: usize,
    },
}

impl HeldExperts {
    /// Their numbers, of so many.
    pub fn range(self, experts: usize) -> Range<usize> {
        match self {
            HeldExperts::All => 0..experts,
            HeldExperts::Some { first, count } => first..first + count,
        }
    }
}

/// Mixture of experts over one normed input and the router's logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experts {
    /// Normed input `[hidden]`.
    pub x: Slot,
    /// Router logits `[experts]`.
    pub logits: Slot,
    /// Added to the scores for the choice only.
    pub select_bias: Option<WeightId>,
    /// `[experts][inner, hidden]`.
    pub gate: WeightId,
    /// `[experts][inner, hidden]`.
    pub up: WeightId,
    /// `[experts][hidden, inner]`.
    pub down: WeightId,
    /// `[experts, inner]` and `[experts, hidden]`.
    pub biases: Option<ExpertBiases>,
    /// Inner width of one expert.
    pub inner: usize,
    /// Nonlinearity, always gated.
    pub act: Act,
    /// Experts that stacks have.
    pub held: HeldExperts,
    /// Who is chosen.
    pub routing: Routing,
    /// Result `[hidden]`.
    pub out: Slot,
}

/// Biases of every expert.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertBiases {
    /// `[experts, inner]`.
    pub gate: WeightId,
    /// `[experts, inner]`.
    pub up: WeightId,
    /// `[experts, hidden]`.
    pub down: WeightId,
}

impl Operands for Experts {
    fn operands(&self) -> Vec<Operand> {
        let matrices = [self.gate, self.up, self.down].map(Some);
        let biases = self.biases.map(|b| [b.gate, b.up, b.down]);
        let vectors = biases.into_iter().flatten().map(Some).chain([self.select_bias]);
        let slots = [Read(self.x), Read(self.logits), Write(self.out)];
        operands(&slots, matrices.into_iter().chain(vectors))
    }
}
