//! Qwen3-Next: three gated delta nets and one gated attention in turn, experts with a shared one.

use super::{
    qwen2_moe::{sparse, with_shared},
    qwen3::with_qk_norm,
};
use crate::{
    Family, Result,
    cut::{Cut, strided},
    llama_like,
    names::{Edit, Rule},
    spec::*,
};
use lamina_store::Checkpoint;
use std::ops::Range;

pub static FAMILY: Family = Family {
    name: "qwen3-next",
    hf: &["Qwen3NextForCausalLM"],
    gguf: &["qwen3next"],
    full_every: Some(4),
    build: |ck, family| {
        let spec = hybrid(ck, family, HeadOrder::Grouped)?;
        with_shared(&ck.config, sparse(&ck.config, spec, true)?)
    },
    rules: &[
        Rule::new("output_norm", "model.norm").edit(Edit::PlusOne),
        Rule::new("blk.{i}.attn_norm", "model.layers.{i}.input_layernorm").edit(Edit::PlusOne),
        Rule::new("blk.{i}.ffn_norm", "model.layers.{i}.post_attention_layernorm").edit(Edit::PlusOne),
        Rule::new("blk.{i}.attn_q_norm", "model.layers.{i}.self_attn.q_norm").edit(Edit::PlusOne),
        Rule::new("blk.{i}.attn_k_norm", "model.layers.{i}.self_attn.k_norm").edit(Edit::PlusOne),
        Rule::new("blk.{i}.attn_q", "model.layers.{i}.self_attn.q_proj").cut(Cut::GatedQ),
        Rule::new("blk.{i}.attn_gate", "model.layers.{i}.self_attn.q_proj").cut(Cut::GatedGate),
        Rule::new("blk.{i}.attn_qkv", "model.layers.{i}.linear_attn.in_proj_qkvz").cut(QKV),
        Rule::new("blk.{i}.attn_gate", "model.layers.{i}.linear_attn.in_proj_qkvz").cut(Z),
        Rule::new("blk.{i}.ssm_beta", "model.layers.{i}.linear_attn.in_proj_ba").cut(BETA),
        Rule::new("blk.{i}.ssm_alpha", "model.layers.{i}.linear_attn.in_proj_ba").cut(ALPHA),
        Rule::new("blk.{i}.ssm_conv1d", "model.layers.{i}.linear_attn.conv1d"),
        Rule::new("blk.{i}.ssm_a", "model.layers.{i}.linear_attn.A_log").edit(Edit::NegExp),
        Rule::new("blk.{i}.ssm_dt.bias", "model.layers.{i}.linear_attn.dt_bias"),
        Rule::new("blk.{i}.ssm_norm", "model.layers.{i}.linear_attn.norm"),
        Rule::new("blk.{i}.ssm_out", "model.layers.{i}.linear_attn.out_proj"),
    ],
    gguf_rules: &[
        Rule::new("blk.{i}.ffn_norm", "blk.{i}.post_attention_norm"),
        Rule::new("blk.{i}.attn_q", "blk.{i}.attn_q").cut(Cut::GatedQ),
        Rule::new("blk.{i}.attn_gate", "blk.{i}.attn_q").cut(Cut::GatedGate),
        Rule::new("blk.{i}.attn_qkv", "blk.{i}.ssm_in").cut(QKV),
        Rule::new("blk.{i}.attn_gate", "blk.{i}.ssm_in").cut(Z),
        Rule::new("blk.{i}.ssm_beta", "blk.{i}.ssm_ba").cut(BETA),
        Rule::new("blk.{i}.ssm_alpha", "blk.{i}.ssm_ba").cut(ALPHA),
    ],
    ignored: &["mtp.", "visual."],
    ..Family::LLAMA_LIKE
};

/// Rows of `[q k v.. z..]` repeated for each key head, and of `[beta.. alpha..]` likewise.
const QKV: Cut = Cut::Rows(|l| {
    delta(l).map(|d| {
        let (k, v) = (d.k_dim, d.v_heads / d.k_heads * d.v_dim);
        let part = |rows: Range<usize>| strided(d.k_heads, 2 * (k + v), rows);
        [part(0..k), part(k..2 * k), part(2 * k..2 * k + v)].concat()
    })
});
const Z: Cut = Cut::Rows(|l| {
    delta(l).map(|d| {
        let (k, v) = (d.k_dim, d.v_heads / d.k_heads * d.v_dim);
        strided(d.k_heads, 2 * (k + v), 2 * k + v..2 * (k + v))
    })
});
const BETA: Cut = Cut::Rows(|l| delta(l).map(|d| strided(d.k_heads, 2 * (d.v_heads / d.k_heads), 0..d.v_heads / d.k_heads)));
const ALPHA: Cut = Cut::Rows(|l| {
    delta(l).map(|d| {
        let share = d.v_heads / d.k_heads;
        strided(d.k_heads, 2 * share, share..2 * share)
    })
});

fn delta(layer: &Layer) -> Option<&GatedDelta> {
    if let Mixer::GatedDelta(d) = &layer.mixer { Some(d) } else { None }
}

/// Gated attention in the full layers, gated delta nets in the others.
pub fn hybrid(ck: &Checkpoint, family: &Family, order: HeadOrder) -> Result<ModelSpec> {
    let c = &ck.config;
    let spec = with_qk_norm(llama_like(ck, family)?, QkSpan::Head);
    let delta = GatedDelta {
        k_heads: c.usize("linear_num_key_heads")?,
        v_heads: c.usize("linear_num_value_heads")?,
        k_dim: c.usize("linear_key_head_dim")?,
        v_dim: c.usize("linear_value_head_dim")?,
        conv: c.opt_usize("linear_conv_kernel_dim")?.unwrap_or(4),
        norm: crate::norm(c)?,
        order,
    };
    let spec = spec.try_each(|i, l| {
        let full = family.layer_type(c, i)? == Some("full_attention");
        match &mut l.mixer {
            Mixer::Gqa(g) if full => g.gated = true,
            mixer => *mixer = Mixer::GatedDelta(delta.clone()),
        }
        Ok::<_, crate::ArchError>(())
    })?;
    Ok(spec)
}
