//! Seed-OSS: Llama with biases.

use crate::{Family, names::Rule};

pub static FAMILY: Family = Family {
    name: "seed-oss",
    hf: &["SeedOssForCausalLM"],
    gguf: &["seed_oss"],
    gguf_rules: &[&[Rule::new("blk.{i}.ffn_norm", "blk.{i}.post_attention_norm")]],
    ..Family::LLAMA_LIKE
};
