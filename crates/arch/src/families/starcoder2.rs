//! StarCoder 2: Llama with layer norms, biases and no gate.

use crate::{Family, llama_like, names::Rule, plain_ffn, spec::Act};

pub static FAMILY: Family = Family {
    name: "starcoder2",
    hf: &["Starcoder2ForCausalLM"],
    gguf: &["starcoder2"],
    build: |ck, family| plain_ffn(&ck.config, llama_like(ck, family)?, Act::GeluTanh),
    rules: &[&[
        Rule::new("blk.{i}.ffn_up", "model.layers.{i}.mlp.c_fc"),
        Rule::new("blk.{i}.ffn_down", "model.layers.{i}.mlp.c_proj"),
    ]],
    ..Family::LLAMA_LIKE
};
