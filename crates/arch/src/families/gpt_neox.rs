//! GPT-NeoX and Pythia: attention and feed-forward side by side, a rotary embedding on a quarter of each head.

use crate::{
    Family, llama_like,
    names::Rule,
    plain_ffn,
    spec::{Act, Place},
};

pub static FAMILY: Family = Family {
    name: "gpt-neox",
    hf: &["GPTNeoXForCausalLM"],
    gguf: &["gptneox"],
    build: |ck, family| {
        let parallel = ck.config.opt_bool("use_parallel_residual")?.unwrap_or(true);
        let place = if parallel { Place::Parallel { shared_norm: false } } else { Place::Pre };
        // The family has no grouped queries; some configurations carry a stray number all the same.
        let spec = llama_like(ck, family)?.each_gqa(|_, g| g.kv_heads = g.heads);
        plain_ffn(&ck.config, spec.each(|_, l| l.place = place), Act::Gelu)
    },
    rules: &[
        &Rule::grouped_qkv("gpt_neox.layers.{i}.attention.query_key_value"),
        &[
            Rule::new("token_embd", "gpt_neox.embed_in"),
            Rule::new("output_norm", "gpt_neox.final_layer_norm"),
            Rule::new("output", "embed_out"),
            Rule::new("blk.{i}.attn_norm", "gpt_neox.layers.{i}.input_layernorm"),
            Rule::new("blk.{i}.attn_output", "gpt_neox.layers.{i}.attention.dense"),
            Rule::new("blk.{i}.ffn_norm", "gpt_neox.layers.{i}.post_attention_layernorm"),
            Rule::new("blk.{i}.ffn_up", "gpt_neox.layers.{i}.mlp.dense_h_to_4h"),
            Rule::new("blk.{i}.ffn_down", "gpt_neox.layers.{i}.mlp.dense_4h_to_h"),
        ],
    ],
    ignored: &["attention.bias", "attention.masked_bias"],
    ..Family::LLAMA_LIKE
};
