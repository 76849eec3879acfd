//! Models that mix gated attention and gated delta nets.

use crate::{
    error::Result,
    family::Family,
    llama_like::{llama_like, norm},
    spec::*,
};
use lamina_store::Checkpoint;

/// Gated attention in the full layers, gated delta nets in the others.
pub fn hybrid(ck: &Checkpoint, family: &Family, order: HeadOrder) -> Result<ModelSpec> {
    let c = &ck.config;
    let spec = llama_like(ck, family)?;
    let delta = GatedDelta {
        k_heads: c.usize("linear_num_key_heads")?,
        v_heads: c.usize("linear_num_value_heads")?,
        k_dim: c.usize("linear_key_head_dim")?,
        v_dim: c.usize("linear_value_head_dim")?,
        conv: c.opt_usize("linear_conv_kernel_dim")?.unwrap_or(4),
        norm: norm(c)?,
        order,
    };
    spec.try_each(|i, l| {
        let full = family.layer_type(c, i)? == Some("full_attention");
        let qk_norm = QkNorm { norm: l.norm, over: QkSpan::Head, after_rope: false };
        match &mut l.mixer {
            Mixer::Gqa(g) if full => (g.gated, g.qk_norm) = (true, Some(qk_norm)),
            mixer => *mixer = Mixer::GatedDelta(delta.clone()),
        }
        Ok(())
    })
}
