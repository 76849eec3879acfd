//! The operators of a plan: what a backend has to know, and nothing about models or files.

use crate::slot::{Slot, W};
use lamina_arch::spec::{Act, HeadOrder, Mamba2, Mask, Moe, NormKind, Temperature};

/// A norm with its weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormOp {
    /// Formula.
    pub kind: NormKind,
    /// Added to the variance.
    pub eps: f32,
    /// Factor, one per column; none means 1.
    pub weight: Option<W>,
    /// Offset, one per column.
    pub bias: Option<W>,
}

/// One matrix of a projection: `out = x w^T + bias`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// `[width of out, width of x]`.
    pub weight: W,
    /// One per output.
    pub bias: Option<W>,
    /// Result.
    pub out: Slot,
}

/// `out = scale * table[token]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Embed {
    /// `[vocab, width]`.
    pub table: W,
    /// Factor.
    pub scale: f32,
    /// Result.
    pub out: Slot,
}

/// `x += table[position + offset]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Positions {
    /// `[positions, width]`.
    pub table: W,
    /// Added to the position.
    pub offset: usize,
    /// Changed in place.
    pub x: Slot,
}

/// `out = norm(x)`; `x` and `out` may be the same slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalize {
    /// Input.
    pub x: Slot,
    /// Formula and weights.
    pub norm: NormOp,
    /// Result.
    pub out: Slot,
}

/// Norm over each of `heads` equal pieces of a row, in place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadNorm {
    /// Changed in place.
    pub x: Slot,
    /// Pieces.
    pub heads: usize,
    /// Formula and weights.
    pub norm: NormOp,
    /// The weight has a row per head instead of one for all.
    pub weight_per_head: bool,
}

/// One matrix product without a norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    /// Input.
    pub x: Slot,
    /// Matrix, bias and result.
    pub part: Part,
}

/// Several matrix products of one normed input. Meaning: norm into `temp`, then each part.
#[derive(Clone, Debug, PartialEq)]
pub struct Project {
    /// Input.
    pub x: Slot,
    /// Norm of the input; without one `x` is used as it is.
    pub norm: Option<NormOp>,
    /// Holds the normed input.
    pub temp: Slot,
    /// Matrices with their results.
    pub parts: Vec<Part>,
}

/// `into += scale * (x w^T + bias)`. Meaning: linear into `temp`, then add.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearAdd {
    /// Input.
    pub x: Slot,
    /// Matrix.
    pub weight: W,
    /// One per output.
    pub bias: Option<W>,
    /// Holds the product.
    pub temp: Slot,
    /// Factor on what is added.
    pub scale: f32,
    /// Changed in place.
    pub into: Slot,
}

/// `into += scale * norm(x)`. Meaning: norm in place, then add.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormAdd {
    /// Input, overwritten.
    pub x: Slot,
    /// Formula and weights.
    pub norm: NormOp,
    /// Factor on what is added.
    pub scale: f32,
    /// Changed in place.
    pub into: Slot,
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
}

/// `out = x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copy {
    /// Input.
    pub x: Slot,
    /// Result, of the same width and rows.
    pub out: Slot,
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
}

/// First half of a feed-forward part. Meaning: project into `gate` (and `up`), then activate into `gate`.
#[derive(Clone, Debug, PartialEq)]
pub struct Glu {
    /// Norm, input and one or two matrices: gate and up, or up alone.
    pub project: Project,
    /// Nonlinearity; the result is in the first part's slot.
    pub act: Act,
}

/// `x *= sigmoid(gate)`; a gate of width 1 scales the row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// Changed in place.
    pub x: Slot,
    /// Argument of the sigmoid.
    pub gate: Slot,
}

/// Simple in-place functions of one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Map {
    /// `x * s`.
    Scale(f32),
    /// `c * tanh(x / c)`.
    Softcap(f32),
    /// Cut to `[-c, c]`.
    Clip(f32),
    /// Scaled by the row's position.
    Temperature(Temperature),
}

/// A [`Map`] over a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apply {
    /// Changed in place.
    pub x: Slot,
    /// Function.
    pub map: Map,
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

/// Writes the keys and values of the batch rows into their pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Store {
    /// Keys `[kv_heads * dim]`.
    pub k: Slot,
    /// Values `[kv_heads * dim]`.
    pub v: Slot,
    /// Layer of the cache.
    pub kv: usize,
}

/// Softmax attention of stored keys and values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Queries `[heads * dim]`.
    pub q: Slot,
    /// Layer of the cache.
    pub kv: usize,
    /// Query heads.
    pub heads: usize,
    /// Factor on scores.
    pub scale: f32,
    /// `cap * tanh(score / cap)`.
    pub softcap: Option<f32>,
    /// Visible positions.
    pub mask: Mask,
    /// One extra logit per head.
    pub sinks: Option<W>,
    /// Largest exponent of linear position biases.
    pub alibi: Option<f32>,
    /// Factor on linear position biases.
    pub alibi_factor: f32,
    /// Result `[heads * dim]`.
    pub out: Slot,
}

/// All of an attention between its projections.
///
/// Meaning: the `before` steps on queries and keys, store, attention. The steps stay a list, since families order
/// norm, rotation, clipping and temperature differently.
#[derive(Clone, Debug, PartialEq)]
pub struct Attend {
    /// In-place steps on queries, keys or values.
    pub before: Vec<Step>,
    /// Cache write.
    pub store: Store,
    /// Attention over the cache.
    pub attention: Attention,
}

/// In-place step on queries, keys or values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Norm per head.
    HeadNorm(HeadNorm),
    /// Norm of the whole row.
    Normalize(Normalize),
    /// Rotary embedding.
    Rotate(Rotate),
    /// Function of one number.
    Apply(Apply),
}

/// Latent attention (MLA) in absorbed form: scores and values come from the stored latents, never from expanded keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatentAttend {
    /// Queries `[heads * (nope + rope)]`, rotary part already turned.
    pub q: Slot,
    /// Latents `[kv_rank]`, already normed.
    pub latent: Slot,
    /// Rotary keys `[rope]`, already turned.
    pub k_rope: Slot,
    /// `[heads][kv_rank, nope]`: key part of the up-projection, transposed, so that it takes queries to the latents.
    pub w_k: W,
    /// `[heads][v_dim, kv_rank]`: value part of the up-projection.
    pub w_v: W,
    /// Layer of the cache.
    pub kv: usize,
    /// Query heads.
    pub heads: usize,
    /// Head width without positions.
    pub nope: usize,
    /// Rotary width.
    pub rope: usize,
    /// Width of a value head.
    pub v_dim: usize,
    /// Factor on scores.
    pub scale: f32,
    /// Result `[heads * v_dim]`.
    pub out: Slot,
}

/// Mixture of experts over one normed input. Meaning: project the router, then [`Experts`].
#[derive(Clone, Debug, PartialEq)]
pub struct Experts {
    /// Normed input.
    pub x: Slot,
    /// Router logits `[experts]`.
    pub logits: Slot,
    /// Added to the scores for the choice only.
    pub select_bias: Option<W>,
    /// `[experts][inner, hidden]`.
    pub gate: W,
    /// `[experts][inner, hidden]`.
    pub up: W,
    /// `[experts][hidden, inner]`.
    pub down: W,
    /// `[experts, inner]` and `[experts, hidden]`.
    pub biases: Option<ExpertBiases>,
    /// Routing rule and nonlinearity.
    pub moe: Moe,
    /// Result `[hidden]`.
    pub out: Slot,
}

/// Biases of every expert.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertBiases {
    /// `[experts, inner]`.
    pub gate: W,
    /// `[experts, inner]`.
    pub up: W,
    /// `[experts, hidden]`.
    pub down: W,
}

/// Causal depthwise convolution with SiLU; the last taps of each sequence are kept in its recurrent state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv {
    /// Changed in place `[channels]`.
    pub x: Slot,
    /// `[channels, taps]`.
    pub weight: W,
    /// `[channels]`.
    pub bias: Option<W>,
    /// Layer of the state.
    pub kv: usize,
}

/// Gated delta rule over the convolved `[q | k | v]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeltaRule {
    /// `[k_heads * k_dim | k_heads * k_dim | v_heads * v_dim]`.
    pub qkv: Slot,
    /// Write strength before the sigmoid `[v_heads]`.
    pub beta: Slot,
    /// Decay input `[v_heads]`.
    pub alpha: Slot,
    /// `-exp(A_log)`, one per value head.
    pub a: W,
    /// Added to `alpha`, one per value head.
    pub dt_bias: W,
    /// Layer of the state.
    pub kv: usize,
    /// Query and key heads.
    pub k_heads: usize,
    /// Value heads.
    pub v_heads: usize,
    /// Width of a key head.
    pub k_dim: usize,
    /// Width of a value head.
    pub v_dim: usize,
    /// Which value heads a key head serves.
    pub order: HeadOrder,
    /// Result `[v_heads * v_dim]`.
    pub out: Slot,
}

/// Mamba-2 scan over the convolved `[x | B | C]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// `[heads * dim | groups * state | groups * state]`.
    pub xbc: Slot,
    /// Step sizes before bias and softplus `[heads]`.
    pub dt: Slot,
    /// `-exp(A_log)`, one per head.
    pub a: W,
    /// Skip factor, one per head.
    pub d: W,
    /// Added to `dt`.
    pub dt_bias: W,
    /// Layer of the state.
    pub kv: usize,
    /// Sizes.
    pub mamba: Mamba2,
    /// Result `[heads * dim]`.
    pub out: Slot,
}

/// Norm with a SiLU gate, in place, over `groups` pieces of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GatedNorm {
    /// Changed in place.
    pub x: Slot,
    /// Gate, as wide as `x`.
    pub gate: Slot,
    /// Pieces with a norm of their own.
    pub groups: usize,
    /// The weight has a row per piece instead of one for all.
    pub weight_per_group: bool,
    /// Formula and weights.
    pub norm: NormOp,
    /// Gate before the norm (Mamba-2) instead of after (gated delta net).
    pub gate_first: bool,
}

/// Columns that belong to one adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the adapter.
    pub adapter: usize,
    /// First column.
    pub start: usize,
    /// Columns: the adapter's rank.
    pub len: usize,
}

/// Multiplies each piece of a row by the strength that the row's sequence uses its adapter with, in place; 0 if not.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapt {
    /// Changed in place.
    pub x: Slot,
    /// Columns of the adapters.
    pub pieces: Vec<Piece>,
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

/// What low-rank adapters (LoRA, arXiv 2106.09685) add to a matrix product of `x`; those of all adapters are stacked.
///
/// Meaning: nothing when no sequence of the batch uses an adapter; else linear into `low`, [`Adapt`], linear into
/// `wide`, [`AddAdapted`].
#[derive(Clone, Debug, PartialEq)]
pub struct LowRank {
    /// Input of the product.
    pub x: Slot,
    /// `[ranks of all adapters, width of x]`.
    pub down: W,
    /// Holds `x down^T`.
    pub low: Slot,
    /// Columns of `low` by adapter.
    pub pieces: Vec<Piece>,
    /// `[width of into, ranks of all adapters]`.
    pub up: W,
    /// Holds `low up^T`.
    pub wide: Slot,
    /// Factor on what is added.
    pub scale: f32,
    /// Changed in place.
    pub into: Slot,
}

/// `out` gets the rows of `x` that want logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Select {
    /// All rows.
    pub x: Slot,
    /// Selected rows.
    pub out: Slot,
}

macro_rules! ops {
    ($($(#[$doc:meta])* $variant:ident,)*) => {
        /// One operator of a plan.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op { $($(#[$doc])* $variant($variant),)* }
        $(impl From<$variant> for Op { fn from(o: $variant) -> Op { Op::$variant(o) } })*

        impl Op {
            /// The operator's name, for profiles.
            pub fn name(&self) -> &'static str { match self { $(Op::$variant(_) => stringify!($variant),)* } }
        }
    };
}

ops! {
    /// Token rows.
    Embed,
    /// Learned positions.
    Positions,
    /// Norm.
    Normalize,
    /// Norm per head.
    HeadNorm,
    /// Matrix product.
    Linear,
    /// Norm and several matrix products.
    Project,
    /// Matrix product and residual.
    LinearAdd,
    /// Norm and residual.
    NormAdd,
    /// Residual.
    Add,
    /// Copy of a slot.
    Copy,
    /// Nonlinearity.
    Activate,
    /// Norm, matrix products and nonlinearity.
    Glu,
    /// Sigmoid gate.
    Gate,
    /// Function of one number.
    Apply,
    /// Rotary embedding.
    Rotate,
    /// Attention with everything around it.
    Attend,
    /// Latent attention.
    LatentAttend,
    /// Experts.
    Experts,
    /// Short convolution.
    Conv,
    /// Gated delta rule.
    DeltaRule,
    /// State space scan.
    Scan,
    /// Gated norm.
    GatedNorm,
    /// Adapters of a matrix.
    LowRank,
    /// Rows that want logits.
    Select,
}

impl Op {
    /// Every slot that the operator reads or writes.
    pub fn slots(&self) -> Vec<Slot> {
        let project = |p: &Project| [p.x, p.temp].into_iter().chain(p.parts.iter().map(|p| p.out)).collect();
        match self {
            Op::Embed(o) => vec![o.out],
            Op::Positions(o) => vec![o.x],
            Op::Normalize(o) => vec![o.x, o.out],
            Op::HeadNorm(o) => vec![o.x],
            Op::Linear(o) => vec![o.x, o.part.out],
            Op::Project(o) => project(o),
            Op::LinearAdd(o) => vec![o.x, o.temp, o.into],
            Op::NormAdd(o) => vec![o.x, o.into],
            Op::Add(o) => vec![o.x, o.into],
            Op::Copy(o) => vec![o.x, o.out],
            Op::Activate(o) => [Some(o.gate), o.up, Some(o.out)].into_iter().flatten().collect(),
            Op::Glu(o) => project(&o.project),
            Op::Gate(o) => vec![o.x, o.gate],
            Op::Apply(o) => vec![o.x],
            Op::Rotate(o) => vec![o.x],
            Op::Attend(o) => vec![o.attention.q, o.store.k, o.store.v, o.attention.out],
            Op::LatentAttend(o) => vec![o.q, o.latent, o.k_rope, o.out],
            Op::Experts(o) => vec![o.x, o.logits, o.out],
            Op::Conv(o) => vec![o.x],
            Op::DeltaRule(o) => vec![o.qkv, o.beta, o.alpha, o.out],
            Op::Scan(o) => vec![o.xbc, o.dt, o.out],
            Op::GatedNorm(o) => vec![o.x, o.gate],
            Op::LowRank(o) => vec![o.x, o.low, o.wide, o.into],
            Op::Select(o) => vec![o.x, o.out],
        }
    }
}
