//! StarCoder 1 and SantaCoder: GPT-2 with one key head for all queries.

use crate::{
    Family, layer_norm, llama_like,
    names::{GPT, Rule},
    plain_ffn,
    spec::Act,
};

pub static FAMILY: Family = Family {
    name: "starcoder",
    hf: &["GPTBigCodeForCausalLM"],
    gguf: &["starcoder"],
    build: |ck, family| {
        let c = &ck.config;
        let scaled = c.opt_bool("scale_attn_weights")?.unwrap_or(true);
        let (one, norm) = (c.opt_bool("multi_query")?.unwrap_or(true), layer_norm(c)?);
        c.ignore(&["add_cross_attention", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"]);
        let mut spec = llama_like(ck, family)?.with_norm(norm).each_gqa(|_, g| {
            (g.rope, g.kv_heads) = (None, if one { 1 } else { g.heads });
            g.scale = if scaled { g.scale } else { 1.0 };
        });
        spec.embed.positions = Some(0);
        plain_ffn(c, spec, Act::GeluTanh)
    },
    rules: &[&Rule::grouped_qkv("transformer.h.{i}.attn.c_attn"), GPT],
    ..Family::LLAMA_LIKE
};
