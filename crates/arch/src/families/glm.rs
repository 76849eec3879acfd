//! GLM-4 (9B): Llama with adjacent rotary pairs on half of each head and a fused gate.

use super::phi3::GATE_IN_UP;
use crate::{Family, cut::Cut, names::Rule, spec::Pairs};

pub static FAMILY: Family = Family {
    name: "glm",
    hf: &["GlmForCausalLM"],
    gguf: &["chatglm"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    rules: &[&[
        Rule::new("blk.{i}.ffn_gate", "model.layers.{i}.mlp.gate_up_proj").cut(Cut::FirstHalf),
        Rule::new("blk.{i}.ffn_up", "model.layers.{i}.mlp.gate_up_proj").cut(Cut::SecondHalf),
    ]],
    gguf_rules: &[GATE_IN_UP],
    ..Family::LLAMA_LIKE
};
