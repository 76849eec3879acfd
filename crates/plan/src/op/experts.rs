//! Mixture of experts.

use super::{
    Act,
    Operand::{self, *},
    Operands, operands,
};
use crate::slot::{Slot, WeightId};
use lamina_base::formula::{ExpertGroups, RouterScore};
use std::ops::Range;

/// From router logits to chosen experts and their weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Routing {
    /// Experts in the layer.
    pub experts: usize,
    /// Experts per token.
    pub top_k: usize,
    /// From router logits to scores.
    pub score: RouterScore,
    /// Chosen weights are divided by their sum.
    pub renorm: bool,
    /// Factor on the chosen weights.
    pub scale: f32,
    /// Experts are chosen inside the best groups only.
    pub groups: Option<ExpertGroups>,
    /// The weight scales the expert's input instead of its output.
    pub weight_input: bool,
    /// Chosen experts of small weight are dropped, before the others' weights are divided by their sum.
    pub fewer: Option<FewerExperts>,
    /// Which of the others this operator computes; their weights are the same wherever they are computed.
    pub ranks: ExpertRanks,
}

/// Drops chosen experts whose weight is small: an approximation (smart expert reduction of ik_llama.cpp).
///
/// The model's rule then goes by those that are kept: where it divides weights by their sum, that is their sum, and where
/// it does not, what is dropped is missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FewerExperts {
    /// Experts of largest weight that are kept in any case.
    pub least: usize,
    /// The others are kept from this share of the largest weight on.
    pub threshold: f32,
}

/// Chosen experts by the rank of their weight, the largest first; of equal ones the one that was chosen first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpertRanks {
    /// All of them.
    #[default]
    All,
    /// So many of the first.
    First(usize),
    /// Those behind so many of the first.
    Behind(usize),
}

impl ExpertRanks {
    /// The ranks among those of `count` experts.
    pub fn of(self, count: usize) -> Range<usize> {
        match self {
            ExpertRanks::All => 0..count,
            ExpertRanks::First(n) => 0..n.min(count),
            ExpertRanks::Behind(n) => n.min(count)..count,
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
