//! Qwen 3.5 (text): Qwen3-Next with separate projections, dense.

use crate::{
    Family, Result,
    cut::Cut,
    hybrid::hybrid,
    names::{Edit, Rule},
    spec::{HeadOrder, ModelSpec},
};
use lamina_store::{Checkpoint, Kind};

pub static FAMILY: Family = Family {
    name: "qwen3.5",
    hf: &["Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"],
    gguf: &["qwen35"],
    full_every: Some(4),
    build: hybrid_in,
    rules: RULES,
    gguf_rules: &[GGUF_LAYERS],
    ignored: &["mtp.", "visual."],
    ..Family::LLAMA_LIKE
};

/// GGUF files deal value heads out to key heads in turn.
pub fn hybrid_in(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    hybrid(ck, family, if ck.kind == Kind::Gguf { HeadOrder::Tiled } else { HeadOrder::Grouped })
}

/// Names of separate projections.
pub const RULES: &[&[Rule]] = &[
    LAYERS,
    &[
        Rule::new("blk.{i}.attn_qkv", "model.layers.{i}.linear_attn.in_proj_qkv"),
        Rule::new("blk.{i}.attn_gate", "model.layers.{i}.linear_attn.in_proj_z"),
        Rule::new("blk.{i}.ssm_beta", "model.layers.{i}.linear_attn.in_proj_b"),
        Rule::new("blk.{i}.ssm_alpha", "model.layers.{i}.linear_attn.in_proj_a"),
    ],
];

/// Names of everything else in a Qwen3-Next layer.
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
