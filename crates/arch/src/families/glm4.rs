//! GLM-4 (0414): norms around every part, adjacent rotary pairs on half of each head, a fused gate.

use super::phi3::GATE_IN_UP;
use crate::{
    Family,
    cut::Cut,
    llama_like,
    names::Rule,
    spec::{Pairs, Place},
};

pub static FAMILY: Family = Family {
    name: "glm4",
    hf: &["Glm4ForCausalLM"],
    gguf: &["glm4"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    build: |ck, family| Ok(llama_like(ck, family)?.each(|_, l| l.place = Place::Sandwich)),
    rules: &[&[
        Rule::new("blk.{i}.post_attention_norm", "model.layers.{i}.post_self_attn_layernorm"),
        Rule::new("blk.{i}.post_ffw_norm", "model.layers.{i}.post_mlp_layernorm"),
        Rule::new("blk.{i}.ffn_gate", "model.layers.{i}.mlp.gate_up_proj").cut(Cut::FirstHalf),
        Rule::new("blk.{i}.ffn_up", "model.layers.{i}.mlp.gate_up_proj").cut(Cut::SecondHalf),
    ]],
    gguf_rules: &[GATE_IN_UP],
    ..Family::LLAMA_LIKE
};
