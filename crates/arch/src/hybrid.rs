//! Models that mix gated attention and gated delta nets.

use crate::{
    cut::Cut,
    error::Result,
    family::Family,
    head_style::HeadStyle,
    llama_like::{llama_like, norm},
    names::{Edit, Rule},
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

/// How such models carry layers that guess further tokens: each attends as the full layers do.
pub const HEAD: HeadStyle =
    HeadStyle { layers: "mtp.layers.{h}.", feed: HeadFeed::Normed, blank_first: false, ..HeadStyle::NEXTN };

/// What stands beside such a layer.
pub const HEAD_TENSORS: &[Rule] = &[
    Rule::new("blk.{i}.nextn.eh_proj", "mtp.fc"),
    Rule::new("blk.{i}.nextn.enorm", "mtp.pre_fc_norm_embedding").edit(Edit::PlusOne),
    Rule::new("blk.{i}.nextn.hnorm", "mtp.pre_fc_norm_hidden").edit(Edit::PlusOne),
    Rule::new("blk.{i}.nextn.shared_head_norm", "mtp.norm").edit(Edit::PlusOne),
];

/// Names of whole projections of a gated delta net.
pub const SEPARATE: &[Rule] = &[
    Rule::new("blk.{i}.attn_qkv", "model.layers.{i}.linear_attn.in_proj_qkv"),
    Rule::new("blk.{i}.attn_gate", "model.layers.{i}.linear_attn.in_proj_z"),
    Rule::new("blk.{i}.ssm_beta", "model.layers.{i}.linear_attn.in_proj_b"),
    Rule::new("blk.{i}.ssm_alpha", "model.layers.{i}.linear_attn.in_proj_a"),
];

/// Names of fused ones.
pub const FUSED: &[Rule] = &[
    Rule::new("blk.{i}.attn_qkv", "model.layers.{i}.linear_attn.in_proj_qkvz").cut(Cut::DeltaQkv),
    Rule::new("blk.{i}.attn_gate", "model.layers.{i}.linear_attn.in_proj_qkvz").cut(Cut::DeltaGate),
    Rule::new("blk.{i}.ssm_beta", "model.layers.{i}.linear_attn.in_proj_ba").cut(Cut::DeltaBeta),
    Rule::new("blk.{i}.ssm_alpha", "model.layers.{i}.linear_attn.in_proj_ba").cut(Cut::DeltaAlpha),
];

/// GGUF names of fused ones.
pub const GGUF_FUSED: &[Rule] = &[
    Rule::new("blk.{i}.attn_qkv", "blk.{i}.ssm_in").cut(Cut::DeltaQkv),
    Rule::new("blk.{i}.attn_gate", "blk.{i}.ssm_in").cut(Cut::DeltaGate),
    Rule::new("blk.{i}.ssm_beta", "blk.{i}.ssm_ba").cut(Cut::DeltaBeta),
    Rule::new("blk.{i}.ssm_alpha", "blk.{i}.ssm_ba").cut(Cut::DeltaAlpha),
];

/// Names of everything else in such models.
pub const LAYERS: &[Rule] = &[
    Rule::new("output_norm", "model.norm").edit(Edit::PlusOne),
    Rule::new("blk.{i}.attn_norm", "model.layers.{i}.input_layernorm").edit(Edit::PlusOne),
    Rule::new("blk.{i}.ffn_norm", "model.layers.{i}.post_attention_layernorm").edit(Edit::PlusOne),
    Rule::new("blk.{i}.attn_q_norm", "model.layers.{i}.self_attn.q_norm").edit(Edit::PlusOne),
    Rule::new("blk.{i}.attn_k_norm", "model.layers.{i}.self_attn.k_norm").edit(Edit::PlusOne),
    Rule::new("blk.{i}.attn_q", "model.layers.{i}.self_attn.q_proj").cut(Cut::GatedQ),
    Rule::new("blk.{i}.attn_gate", "model.layers.{i}.self_attn.q_proj").cut(Cut::GatedGate),
    Rule::new("blk.{i}.ssm_conv1d", "model.layers.{i}.linear_attn.conv1d"),
    Rule::new("blk.{i}.ssm_a", "model.layers.{i}.linear_attn.A_log").edit(Edit::NegExp),
    Rule::new("blk.{i}.ssm_dt.bias", "model.layers.{i}.linear_attn.dt_bias"),
    Rule::new("blk.{i}.ssm_norm", "model.layers.{i}.linear_attn.norm"),
    Rule::new("blk.{i}.ssm_out", "model.layers.{i}.linear_attn.out_proj"),
];

/// GGUF names of the same.
pub const GGUF_LAYERS: &[Rule] = &[
    Rule::new("blk.{i}.ffn_norm", "blk.{i}.post_attention_norm"),
    Rule::new("blk.{i}.attn_q", "blk.{i}.attn_q").cut(Cut::GatedQ),
    Rule::new("blk.{i}.attn_gate", "blk.{i}.attn_q").cut(Cut::GatedGate),
];
