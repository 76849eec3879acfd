//! Latent attention from a configuration.

use crate::{
    cut::Cut,
    error::Result,
    family::Family,
    names::{Edit, Rule},
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
    let heads = c.usize("num_attention_heads")?;
    let stretch = c.opt_f32("rope_parameters.mscale_all_dim")?.filter(|&m| m != 0.0);
    let mscale = match (stretch, c.opt_f32("rope_parameters.factor")?) {
        (Some(all), Some(factor)) => yarn_mscale(factor, all),
        _ => 1.0,
    };
    c.ignore(&["head_dim", "qk_head_dim", "num_key_value_heads"]);
    Ok(Mla {
        heads,
        q_rank: c.opt_usize("q_lora_rank")?,
        kv_rank: c.usize("kv_lora_rank")?,
        nope,
        v_dim: c.opt_usize("v_head_dim")?.unwrap_or(family.usize(c, "hidden_size")? / heads.max(1)),
        rope: rope(ck, family, rope_dim, None)?,
        // The models' own code gives the latents this epsilon, whatever the configuration says.
        norm: Norm { kind: NormKind::Rms, eps: 1e-6 },
        scale: (nope.saturating_add(rope_dim) as f32).powf(-0.5) * mscale * mscale,
    })
}

/// Names in Hugging Face checkpoints.
pub const LATENT: &[Rule] = &[
    Rule::new("blk.{i}.attn_q_a", "model.layers.{i}.self_attn.q_a_proj"),
    Rule::new("blk.{i}.attn_q_a_norm", "model.layers.{i}.self_attn.q_a_layernorm"),
    Rule::new("blk.{i}.attn_q_b", "model.layers.{i}.self_attn.q_b_proj"),
    Rule::new("blk.{i}.attn_kv_a", "model.layers.{i}.self_attn.kv_a_proj_with_mqa").cut(Cut::Latent),
    Rule::new("blk.{i}.attn_k_rope", "model.layers.{i}.self_attn.kv_a_proj_with_mqa").cut(Cut::LatentRope),
    Rule::new("blk.{i}.attn_kv_a_norm", "model.layers.{i}.self_attn.kv_a_layernorm"),
    Rule::new("blk.{i}.attn_k_b", "model.layers.{i}.self_attn.kv_b_proj")
        .cut(Cut::UpK)
        .edit(Edit::TransposeCut),
    Rule::new("blk.{i}.attn_v_b", "model.layers.{i}.self_attn.kv_b_proj").cut(Cut::UpV),
];

/// GGUF files keep the latent and the rotary key fused.
pub const GGUF_LATENT: &[Rule] = &[
    Rule::new("blk.{i}.attn_kv_a", "blk.{i}.attn_kv_a_mqa").cut(Cut::Latent),
    Rule::new("blk.{i}.attn_k_rope", "blk.{i}.attn_kv_a_mqa").cut(Cut::LatentRope),
];
