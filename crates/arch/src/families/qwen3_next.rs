//! Qwen3-Next: three gated delta nets and one gated attention in turn, experts with a shared one.

use super::{
    qwen2_moe::{sparse, with_shared},
    qwen3_5::{GGUF_LAYERS, LAYERS},
};
use crate::{Family, cut::Cut, hybrid::hybrid, names::Rule, spec::HeadOrder};

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
        LAYERS,
        &[
            Rule::new("blk.{i}.attn_qkv", "model.layers.{i}.linear_attn.in_proj_qkvz").cut(Cut::DeltaQkv),
            Rule::new("blk.{i}.attn_gate", "model.layers.{i}.linear_attn.in_proj_qkvz").cut(Cut::DeltaGate),
            Rule::new("blk.{i}.ssm_beta", "model.layers.{i}.linear_attn.in_proj_ba").cut(Cut::DeltaBeta),
            Rule::new("blk.{i}.ssm_alpha", "model.layers.{i}.linear_attn.in_proj_ba").cut(Cut::DeltaAlpha),
        ],
    ],
    gguf_rules: &[
        GGUF_LAYERS,
        &[
            Rule::new("blk.{i}.attn_qkv", "blk.{i}.ssm_in").cut(Cut::DeltaQkv),
            Rule::new("blk.{i}.attn_gate", "blk.{i}.ssm_in").cut(Cut::DeltaGate),
            Rule::new("blk.{i}.ssm_beta", "blk.{i}.ssm_ba").cut(Cut::DeltaBeta),
            Rule::new("blk.{i}.ssm_alpha", "blk.{i}.ssm_ba").cut(Cut::DeltaAlpha),
        ],
    ],
    ignored: &["mtp.", "visual."],
    ..Family::LLAMA_LIKE
};
