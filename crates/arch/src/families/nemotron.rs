//! Nemotron 3 and 4, Minitron: layer norms stored as offsets from 1, squared ReLU, half of each head turns.

use crate::{
    Family, layer_norm, llama_like,
    names::{Edit, Rule},
    plain_ffn,
    spec::Act,
};

pub static FAMILY: Family = Family {
    name: "nemotron",
    hf: &["NemotronForCausalLM"],
    gguf: &["nemotron"],
    build: |ck, family| {
        let spec = llama_like(ck, family)?.with_norm(layer_norm(&ck.config)?);
        plain_ffn(&ck.config, spec, Act::ReluSquared)
    },
    // The biases are stored as they are.
    rules: &[&[
        Rule::new("output_norm.weight", "model.norm.weight").edit(Edit::PlusOne),
        Rule::new("blk.{i}.attn_norm.weight", "model.layers.{i}.input_layernorm.weight").edit(Edit::PlusOne),
        Rule::new("blk.{i}.ffn_norm.weight", "model.layers.{i}.post_attention_layernorm.weight")
            .edit(Edit::PlusOne),
    ]],
    ..Family::LLAMA_LIKE
};
