//! Formulas that a model's spec names and an operator computes: both sides mean the same by the same name.

use crate::scalar::{gelu, gelu_tanh, sigmoid, silu};
use std::ops::Range;

/// Formula of a norm; the weight is a plain factor, offsets such as Gemma's `1 + w` are settled at load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// `x / rms(x) * w` (arXiv 1910.07467).
    Rms,
    /// `(x - mean) / std * w + b` (arXiv 1607.06450).
    Layer,
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

impl Act {
    /// The nonlinearity of `gate`, times `up` where the part is gated.
    pub fn apply(self, gate: f32, up: Option<f32>) -> f32 {
        let one = |x: f32| up.map_or(x, |u| x * u);
        match self {
            Act::Silu => one(silu(gate)),
            Act::Gelu => one(gelu(gate)),
            Act::GeluTanh => one(gelu_tanh(gate)),
            Act::GeluQuick => one(gate * sigmoid(1.702 * gate)),
            Act::Relu => one(gate.max(0.0)),
            Act::ReluSquared => one(gate.max(0.0).powi(2)),
            Act::Xielu { alpha_p, alpha_n, beta } => {
                let (p, n) = (gate.max(0.0), gate.min(0.0));
                one(alpha_p * p * p + alpha_n * (n.exp_m1() - n) + beta * gate)
            }
            Act::SwigluClamped { alpha, limit } => {
                let (g, u) = (gate.min(limit), up.unwrap_or(0.0).clamp(-limit, limit));
                g * sigmoid(alpha * g) * (u + 1.0)
            }
        }
    }
}

/// Which tokens `j` of its sequence the token `i` sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// `j <= i`, and all of a picture that the batch lets a row see.
    Causal,
    /// `j <= i` also inside pictures whose rows see one another in other layers (full layers of Gemma 4).
    Strict,
    /// `0 <= i - j < n` (sliding window).
    Window(usize),
    /// `j <= i` and `i / n == j / n` (chunks, Llama 4).
    Chunk(usize),
    /// All, also later ones (encoders). All rows of such a sequence stand in one step.
    Full,
}

impl Mask {
    /// Tokens that token `index` sees in a sequence of `len` tokens.
    pub fn visible(self, index: usize, len: usize) -> Range<usize> {
        match self {
            Mask::Causal | Mask::Strict => 0..index + 1,
            Mask::Window(n) => (index + 1).saturating_sub(n)..index + 1,
            Mask::Chunk(n) => index / n * n..index + 1,
            Mask::Full => 0..len,
        }
    }
}

/// Factor on queries that grows with the position: `q *= 1 + scale * ln(floor((position + offset) / floor) + 1)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryScale {
    /// Factor on the logarithm.
    pub scale: f32,
    /// Positions up to this one keep factor 1.
    pub floor: f32,
    /// Number of the first position: Llama 4 counts from 1, Ministral 3 from 0.
    pub offset: f32,
}

/// From router logits to scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterScore {
    /// Softmax over all experts, then the best.
    Softmax,
    /// The best, then softmax over them.
    SoftmaxOfChosen,
    /// Sigmoid each.
    Sigmoid,
}

/// Group-limited routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertGroups {
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

/// Which of `v` value heads share which of `k` key heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadOrder {
    /// Value head `h` takes key head `h / (v / k)`.
    Grouped,
    /// Value head `h` takes key head `h % k` (Qwen 3.5 in GGUF files, whose output columns cannot be moved).
    Tiled,
}

impl HeadOrder {
    /// Key head of value head `h`, with `k_heads` and `v_heads` in all.
    pub fn key_head(self, h: usize, k_heads: usize, v_heads: usize) -> usize {
        match self {
            HeadOrder::Grouped => h / (v_heads / k_heads),
            HeadOrder::Tiled => h % k_heads,
        }
    }
}
