//! StarCoder 2: Llama with layer norms, biases and no gate.

use super::gpt2::plain_ffn;
use crate::{Family, llama_like, names::Rule};

pub static FAMILY: Family = Family {
    name: "starcoder2",
    hf: &["Starcoder2ForCausalLM"],
    gguf: &["starcoder2"],
    build: |ck, family| Ok(plain_ffn(llama_like(ck, family)?)),
    rules: &[
        Rule::new("blk.{i}.ffn_up", "model.layers.{i}.mlp.c_fc"),
        Rule::new("blk.{i}.ffn_down", "model.layers.{i}.mlp.c_proj"),
    ],
    ..Family::LLAMA_LIKE
};
