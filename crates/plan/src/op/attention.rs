//! Softmax attention over stored keys and values, and over stored latents.

use super::{
    Apply, Fused, HeadNorm, Normalize,
    Operand::{self, *},
    Operands, Ops, Rotate, operands,
};
use crate::{
    batch::Batch,
    error::Result,
    slot::{Slot, WeightId},
};
use lamina_base::formula::Mask;

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

impl Operands for Store {
    fn operands(&self) -> Vec<Operand> {
        vec![Read(self.k), Read(self.v), Layer(self.kv)]
    }
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
    /// Visible tokens.
    pub mask: Mask,
    /// One extra logit per head.
    pub sinks: Option<WeightId>,
    /// Largest exponent of linear position biases.
    pub alibi: Option<f32>,
    /// Factor on linear position biases.
    pub alibi_factor: f32,
    /// Result `[heads * dim]`.
    pub out: Slot,
}

impl Operands for Attention {
    fn operands(&self) -> Vec<Operand> {
        operands(&[Read(self.q), Write(self.out), Layer(self.kv)], [self.sinks])
    }
}

/// All of an attention between its projections.
///
/// Meaning: what prepares queries, keys and values, store, attention. The preparation stays a list, since families
/// order norm, rotation, clipping and temperature differently.
#[derive(Clone, Debug, PartialEq)]
pub struct Attend {
    /// In-place operators on queries, keys or values.
    pub before: Vec<Prepare>,
    /// Cache write.
    pub store: Store,
    /// Attention over the cache.
    pub attention: Attention,
}

/// In-place operator on queries, keys or values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prepare {
    /// Norm per head.
    HeadNorm(HeadNorm),
    /// Norm of the whole row.
    Normalize(Normalize),
    /// Rotary embedding.
    Rotate(Rotate),
    /// Function of one number.
    Apply(Apply),
}

impl Operands for Prepare {
    fn operands(&self) -> Vec<Operand> {
        match self {
            Prepare::HeadNorm(o) => o.operands(),
            Prepare::Normalize(o) => o.operands(),
            Prepare::Rotate(o) => o.operands(),
            Prepare::Apply(o) => o.operands(),
        }
    }
}

impl Operands for Attend {
    fn operands(&self) -> Vec<Operand> {
        let before = self.before.iter().flat_map(Prepare::operands);
        before.chain(self.store.operands()).chain(self.attention.operands()).collect()
    }
}

impl Fused for Attend {
    fn meaning<M: Ops + ?Sized>(&self, m: &mut M, b: &Batch) -> Result<()> {
        for prepare in &self.before {
            match prepare {
                Prepare::HeadNorm(o) => m.head_norm(b, o)?,
                Prepare::Normalize(o) => m.normalize(b, o)?,
                Prepare::Rotate(o) => m.rotate(b, o)?,
                Prepare::Apply(o) => m.apply(b, o)?,
            }
        }
        m.store(b, &self.store)?;
        m.attention(b, &self.attention)
    }
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
    pub w_k: WeightId,
    /// `[heads][v_dim, kv_rank]`: value part of the up-projection.
    pub w_v: WeightId,
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

impl Operands for LatentAttend {
    fn operands(&self) -> Vec<Operand> {
        let inputs = [Read(self.q), Read(self.latent), Read(self.k_rope)];
        let all = [inputs.as_slice(), &[Write(self.out), Layer(self.kv)]].concat();
        operands(&all, [Some(self.w_k), Some(self.w_v)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_see_what_they_say() {
        assert_eq!(Mask::Causal.visible(9, 20), 0..10);
        assert_eq!(Mask::Window(4).visible(9, 20), 6..10);
        assert_eq!(Mask::Window(4).visible(2, 20), 0..3);
        assert_eq!(Mask::Chunk(8).visible(9, 20), 8..10);
        assert_eq!(Mask::Full.visible(9, 20), 0..20);
    }
}
