//! Mixtral: Mistral with experts.

use crate::{Family, llama_like, names::Rule, routing::with_experts, spec::Pairs};

pub static FAMILY: Family = Family {
    name: "mixtral",
    hf: &["MixtralForCausalLM"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    build: |ck, family| with_experts(&ck.config, llama_like(ck, family)?),
    rules: &[RULES],
    ..Family::LLAMA_LIKE
};

/// Names of the experts.
pub const RULES: &[Rule] = &[
    Rule::new("blk.{i}.ffn_gate_inp", "model.layers.{i}.block_sparse_moe.gate"),
    Rule::new("blk.{i}.ffn_gate_exps", "model.layers.{i}.block_sparse_moe.experts.{n}.w1"),
    Rule::new("blk.{i}.ffn_down_exps", "model.layers.{i}.block_sparse_moe.experts.{n}.w2"),
    Rule::new("blk.{i}.ffn_up_exps", "model.layers.{i}.block_sparse_moe.experts.{n}.w3"),
];
