//! Latent attention from a configuration.

use crate::{
    error::Result,
    family::Family,
    rope::{rope, yarn_mscale},
    spec::*,
};
use lamina_store::Checkpoint;

/// Sizes, rotary part and scale of latent attention.
///
/// # Errors
/// A missing or unsupported value.
pub fn latent(ck: &Checkpoint, family: &Family) -> Result<Mla> {
    let c = &ck.config;
    let (nope, rope_dim) = (c.usize("qk_nope_head_dim")?, c.usize("qk_rope_head_dim")?);
    let stretch = c.opt_f32("rope_parameters.mscale_all_dim")?.filter(|&m| m != 0.0);
    let mscale = match (stretch, c.opt_f32("rope_parameters.factor")?) {
        (Some(all), Some(factor)) => yarn_mscale(factor, all),
        _ => 1.0,
    };
    c.ignore(&["head_dim", "qk_head_dim", "num_key_value_heads"]);
    Ok(Mla {
        heads: c.usize("num_attention_heads")?,
        q_rank: c.opt_usize("q_lora_rank")?,
        kv_rank: c.usize("kv_lora_rank")?,
        nope,
        v_dim: c.usize("v_head_dim")?,
        rope: rope(ck, family, rope_dim, None)?,
        // The models' own code gives the latents this epsilon, whatever the configuration says.
        norm: Norm { kind: NormKind::Rms, eps: 1e-6 },
        scale: (nope.saturating_add(rope_dim) as f32).powf(-0.5) * mscale * mscale,
    })
}
