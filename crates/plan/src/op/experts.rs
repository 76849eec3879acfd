//! Mixture of experts.

use super::{
    Act,
    Operand::{self, *},
    Operands, operands,
};
use crate::slot::{Slot, WeightId};
use lamina_base::formula::{ExpertGroups, RouterScore};

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
