//! The feed-forward part of a layer: dense, or a mixture of experts.

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

/// Nonlinearity of a feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    /// `x * sigmoid(x)`.
    Silu,
    /// Exact, by the error function.
    Gelu,
    /// Tanh approximation.
    GeluTanh,
    /// `x * sigmoid(1.702 x)`.
    GeluQuick,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2`.
    ReluSquared,
    /// `alpha_p max(x, 0)^2 + alpha_n (exp(n) - 1 - n) + beta x` with `n = min(x, 0)` (xIELU, arXiv 2411.13010).
    Xielu {
        /// Curve of positive inputs.
        alpha_p: f32,
        /// Curve of negative inputs.
        alpha_n: f32,
        /// Slope at zero.
        beta: f32,
    },
    /// gpt-oss: `g * sigmoid(alpha g) * (u + 1)`, gate cut above and up cut on both sides at `limit`.
    SwigluClamped {
        /// Slope inside the sigmoid.
        alpha: f32,
        /// Cut.
        limit: f32,
    },
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
    pub score: Score,
    /// Chosen weights are divided by their sum.
    pub renorm: bool,
    /// Factor on the chosen weights.
    pub scale: f32,
    /// Experts are chosen inside the best groups only (DeepSeek).
    pub groups: Option<Groups>,
    /// The weight scales the expert's input instead of its output (Llama 4).
    pub weight_input: bool,
    /// Expert that every token passes.
    pub shared: Option<Shared>,
}

/// From router logits to scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// Softmax over all experts, then the best.
    Softmax,
    /// The best, then softmax over them.
    SoftmaxOfChosen,
    /// Sigmoid each.
    Sigmoid,
}

/// Group-limited routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Groups of equal size.
    pub count: usize,
    /// Groups that stay.
    pub keep: usize,
    /// How a group is scored.
    pub by: GroupScore,
}

/// How a group of experts is scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupScore {
    /// Its best expert (DeepSeek V2).
    Best,
    /// The sum of its two best (DeepSeek V3).
    BestTwo,
}

/// Shared expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Inner width.
    pub inner: usize,
    /// Scaled by `sigmoid(gate x)` (Qwen2-MoE).
    pub gated: bool,
}
