//! The feed-forward part of a layer: dense, or a mixture of experts.

use lamina_base::formula::{Act, ExpertGroups, RouterScore};

/// Feed-forward part.
#[derive(Clone, Debug, PartialEq)]
pub enum Ffn {
    /// None (Mamba-2).
    None,
    /// Every token through the same weights.
    Dense(Dense),
    /// Experts.
    Moe(Moe),
}

/// Dense feed-forward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dense {
    /// Inner width.
    pub inner: usize,
    /// Nonlinearity.
    pub act: Act,
    /// `down(act(gate x) * up x)` instead of `down(act(up x))`.
    pub gated: bool,
}

/// Mixture of experts.
#[derive(Clone, Debug, PartialEq)]
pub struct Moe {
    /// Experts in the layer.
    pub experts: usize,
    /// Experts per token.
    pub top_k: usize,
    /// Inner width of one expert.
    pub inner: usize,
    /// Nonlinearity, always gated.
    pub act: Act,
    /// From router logits to weights.
    pub score: RouterScore,
    /// Chosen weights are divided by their sum.
    pub renorm: bool,
    /// Factor on the chosen weights.
    pub scale: f32,
    /// Experts are chosen inside the best groups only (DeepSeek).
    pub groups: Option<ExpertGroups>,
    /// The weight scales the expert's input instead of its output (Llama 4).
    pub weight_input: bool,
    /// Expert that every token passes.
    pub shared: Option<Shared>,
}

/// Shared expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Inner width.
    pub inner: usize,
    /// Scaled by `sigmoid(gate x)` (Qwen2-MoE).
    pub gated: bool,
}
