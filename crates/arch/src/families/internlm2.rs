//! InternLM 2 and 2.5: Llama with projections that repeat queries, key and value for each key head.

use crate::{Family, names::Rule, spec::Pairs};

pub static FAMILY: Family = Family {
    name: "internlm2",
    hf: &["InternLM2ForCausalLM"],
    gguf: &["internlm2"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    rules: &[
        &Rule::grouped_qkv("model.layers.{i}.attention.wqkv"),
        &[
            Rule::new("token_embd", "model.tok_embeddings"),
            Rule::new("output", "output"),
            Rule::new("blk.{i}.attn_norm", "model.layers.{i}.attention_norm"),
            Rule::new("blk.{i}.attn_output", "model.layers.{i}.attention.wo"),
            Rule::new("blk.{i}.ffn_norm", "model.layers.{i}.ffn_norm"),
            Rule::new("blk.{i}.ffn_gate", "model.layers.{i}.feed_forward.w1"),
            Rule::new("blk.{i}.ffn_down", "model.layers.{i}.feed_forward.w2"),
            Rule::new("blk.{i}.ffn_up", "model.layers.{i}.feed_forward.w3"),
        ],
    ],
    ..Family::LLAMA_LIKE
};
