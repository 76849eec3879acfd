//! What a model is, as data: sum types instead of flags, one entry per layer.
//!
//! A spec names no tensors and knows no file format; [`crate::weights`] finds the tensors by the canonical names
//! that the plan asks for, and the presence of an optional tensor (a bias, a query norm) decides that feature.

mod edits;
mod ffn;
mod head;

pub use ffn::*;
pub use head::*;
pub use lamina_base::formula::*;

/// A whole model: a decoder, or an encoder.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Rows of the embedding table, and logits per position.
    pub vocab: usize,
    /// Longest sequence the model was made for, in tokens.
    pub context: usize,
    /// From token ids to the first residual row.
    pub embed: Embed,
    /// Blocks in order.
    pub layers: Vec<Layer>,
    /// Norm before the head; `None` where the last block already ends in one.
    pub final_norm: Option<Norm>,
    /// From the residual to logits, where [`ModelSpec::output`] is tokens.
    pub head: Head,
    /// What becomes of the last rows.
    pub output: ModelOutput,
    /// Layers that guess further tokens; the model runs without them.
    pub heads: Vec<HeadSpec>,
}

/// What becomes of the rows behind the last layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelOutput {
    /// Logits of the next token.
    Tokens,
    /// Nothing: the rows are the result (encoders for embeddings).
    Rows,
    /// A classifier scores the first row (rerankers): `out(tanh(dense(x)))`.
    Classes {
        /// Scores.
        labels: usize,
        /// The classifier has a dense layer and tanh before its scores.
        dense: bool,
    },
}

/// Token and position embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Embed {
    /// Factor on the embedding row (Gemma: sqrt(hidden)).
    pub scale: f32,
    /// Learned position rows are added: row `position + offset` of `position_embd.weight` (OPT: offset 2).
    pub positions: Option<usize>,
    /// Rows of `token_types.weight`, of which the one of a token's segment is added (BERT); 0 for none.
    pub segments: usize,
    /// Norm right after the embedding (BLOOM).
    pub norm: Option<Norm>,
    /// Width of an embedding row where it differs from `hidden`; projected in and out (OPT 350m).
    pub width: Option<usize>,
}

/// From the last residual row to logits.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The head is the embedding table.
    pub tied: bool,
    /// Factor on the logits.
    pub scale: f32,
    /// `cap * tanh(x / cap)` after the scale.
    pub softcap: Option<f32>,
}

/// One block: a sequence mixer, a feed-forward part, and how norms and residuals surround them.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Attention or a recurrent layer.
    pub mixer: Mixer,
    /// Dense, experts, or none.
    pub ffn: Ffn,
    /// Where norms and residuals are.
    pub place: Place,
    /// The kind of every norm in [`Layer::place`].
    pub norm: Norm,
    /// Factor on what a part adds to the residual (Granite).
    pub residual: f32,
    /// Factor on the residual behind the block (Gemma 4).
    pub scale: f32,
}

/// Order of norm, part and residual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `x += part(norm(x))` (Llama).
    Pre,
    /// `x += norm(part(x))` (OLMo 2).
    Post,
    /// `x += norm(part(norm(x)))` (Gemma 2).
    Sandwich,
    /// `x = norm(x + part(x))` (OPT 350m).
    PostResidual,
    /// `n = norm(x); x = n + part(n)` (BLOOM with `apply_residual_connection_post_layernorm`).
    FromNorm,
    /// `x += mixer(norm(x)) + ffn(norm(x))` with one norm (Phi-2) or one each (GPT-NeoX).
    Parallel {
        /// Mixer and feed-forward read the same norm.
        shared_norm: bool,
    },
}

/// A normalisation over a row or over each head of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Formula.
    pub kind: NormKind,
    /// Added to the variance.
    pub eps: f32,
}

/// What mixes positions.
#[derive(Clone, Debug, PartialEq)]
pub enum Mixer {
    /// Attention with grouped queries; multi-head and multi-query are its ends.
    Gqa(Gqa),
    /// Multi-head latent attention (DeepSeek V2, arXiv 2405.04434).
    Mla(Mla),
    /// Gated delta net (arXiv 2412.06464).
    GatedDelta(GatedDelta),
    /// Mamba-2 state space layer (arXiv 2405.21060).
    Mamba2(Mamba2),
}

/// Grouped-query attention.
#[derive(Clone, Debug, PartialEq)]
pub struct Gqa {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of one head.
    pub dim: usize,
    /// Norm of queries and keys.
    pub qk_norm: Option<QkNorm>,
    /// Norm of each head of the values, without a weight (Gemma 4).
    pub v_norm: Option<Norm>,
    /// Rotary positions; `None` in layers without (NoPE, ALiBi, learned).
    pub rope: Option<Rope>,
    /// Linear position bias.
    pub alibi: Option<Alibi>,
    /// Factor on query times key.
    pub scale: f32,
    /// `cap * tanh(score / cap)`.
    pub softcap: Option<f32>,
    /// Which earlier positions are seen.
    pub mask: Mask,
    /// One learned logit per head joins the softmax and takes no value (gpt-oss).
    pub sinks: bool,
    /// The query projection also yields a gate: `out *= sigmoid(gate)` (Qwen3-Next).
    pub gated: bool,
    /// Queries, keys and values are cut to `[-c, c]` (MPT, OLMo).
    pub clip: Option<f32>,
    /// Queries are scaled by position (Llama 4 layers without rope).
    pub temperature: Option<QueryScale>,
}

/// Linear position bias (ALiBi, arXiv 2108.12409).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alibi {
    /// Largest exponent of the slopes.
    pub largest: f32,
    /// Factor on the biases (Falcon scales them with the scores).
    pub factor: f32,
}

/// Norm of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QkNorm {
    /// Formula and epsilon.
    pub norm: Norm,
    /// What one norm spans.
    pub over: QkSpan,
    /// After the rotary embedding instead of before (Llama 4).
    pub after_rope: bool,
}

/// What one query/key norm spans, and which weight it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkSpan {
    /// Each head, one weight of `dim` for all (Qwen3).
    Head,
    /// Each head, with a weight row of its own (StableLM 2 12B).
    EachHead,
    /// Each head, no weight (Llama 4).
    HeadUnweighted,
    /// All heads at once (OLMo 2).
    Full,
}

/// Rotary position embedding (arXiv 2104.09864).
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Dimensions of a head that turn; the rest pass.
    pub dim: usize,
    /// How the file orders the two halves of a pair; settled at load by reordering rows.
    pub pairs: Pairs,
    /// Angle per position of each of the `dim / 2` pairs.
    pub freqs: Vec<f32>,
    /// Used instead of `freqs` by sequences longer than the original context (longrope).
    pub long: Option<LongRope>,
    /// Factor on cosine and sine (yarn, longrope).
    pub magnitude: f32,
    /// Axis of the position, 0 to 2, that turns each pair (mrope, arXiv 2409.12191); pairs behind the end turn by the
    /// first. A text's positions are the same on all axes.
    pub axes: Vec<u8>,
}

/// Second set of frequencies for long sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct LongRope {
    /// Angles per position.
    pub freqs: Vec<f32>,
    /// Prompts longer than this, and positions from this one on, use them.
    pub original_context: usize,
}

/// Order of a rotary pair inside a head as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// `(i, i + dim/2)` (Hugging Face Llama, GPT-NeoX).
    Half,
    /// `(2i, 2i + 1)` (GPT-J, original Llama, most Llama GGUFs).
    Adjacent,
}

/// Multi-head latent attention.
#[derive(Clone, Debug, PartialEq)]
pub struct Mla {
    /// Query heads.
    pub heads: usize,
    /// Width of the compressed query; `None` for a plain projection.
    pub q_rank: Option<usize>,
    /// Width of the latent that stands for keys and values.
    pub kv_rank: usize,
    /// Head width without positions.
    pub nope: usize,
    /// Width of a value head.
    pub v_dim: usize,
    /// Rotary part, shared by all heads on the key side.
    pub rope: Rope,
    /// Norm of the latents.
    pub norm: Norm,
    /// Factor on scores.
    pub scale: f32,
}

/// Gated delta net.
#[derive(Clone, Debug, PartialEq)]
pub struct GatedDelta {
    /// Query and key heads.
    pub k_heads: usize,
    /// Value heads; a multiple of `k_heads`.
    pub v_heads: usize,
    /// Width of a key head.
    pub k_dim: usize,
    /// Width of a value head.
    pub v_dim: usize,
    /// Taps of the causal convolution.
    pub conv: usize,
    /// Norm of the output heads.
    pub norm: Norm,
    /// Which value heads a key head serves.
    pub order: HeadOrder,
}

/// Mamba-2 layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Mamba2 {
    /// Heads.
    pub heads: usize,
    /// Width of a head; `heads * dim` is the inner width.
    pub dim: usize,
    /// Groups that share B and C.
    pub groups: usize,
    /// State numbers per head dimension.
    pub state: usize,
    /// Taps of the causal convolution.
    pub conv: usize,
    /// Norm before the output projection, over each group.
    pub norm: Norm,
    /// Limits of the step size.
    pub dt_limit: (f32, f32),
}
