//! StarCoder 1 and SantaCoder: GPT-2 with one key head for all queries.

use crate::{Family, cut::Cut, layer_norm, llama_like, names::Rule, plain_ffn, spec::Act};

pub static FAMILY: Family = Family {
    name: "starcoder",
    hf: &["GPTBigCodeForCausalLM"],
    gguf: &["starcoder"],
    build: |ck, family| {
        let c = &ck.config;
        let scaled = c.opt_bool("scale_attn_weights")?.unwrap_or(true);
        let (one, norm) = (c.opt_bool("multi_query")?.unwrap_or(true), layer_norm(c)?);
        c.ignore(&["add_cross_attention", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"]);
        let mut spec = llama_like(ck, family)?.each_gqa(|_, g| {
            (g.rope, g.kv_heads) = (None, if one { 1 } else { g.heads });
            g.scale = if scaled { g.scale } else { 1.0 };
        });
        (spec.embed.positions, spec.final_norm) = (Some(0), Some(norm));
        plain_ffn(c, spec.each(|_, l| l.norm = norm), Act::GeluTanh)
    },
    rules: &[&[
        Rule::new("token_embd", "transformer.wte"),
        Rule::new("position_embd", "transformer.wpe"),
        Rule::new("output_norm", "transformer.ln_f"),
        Rule::new("blk.{i}.attn_norm", "transformer.h.{i}.ln_1"),
        Rule::new("blk.{i}.attn_q", "transformer.h.{i}.attn.c_attn").cut(Cut::GroupedQ),
        Rule::new("blk.{i}.attn_k", "transformer.h.{i}.attn.c_attn").cut(Cut::GroupedK),
        Rule::new("blk.{i}.attn_v", "transformer.h.{i}.attn.c_attn").cut(Cut::GroupedV),
        Rule::new("blk.{i}.attn_output", "transformer.h.{i}.attn.c_proj"),
        Rule::new("blk.{i}.ffn_norm", "transformer.h.{i}.ln_2"),
        Rule::new("blk.{i}.ffn_up", "transformer.h.{i}.mlp.c_fc"),
        Rule::new("blk.{i}.ffn_down", "transformer.h.{i}.mlp.c_proj"),
    ]],
    ..Family::LLAMA_LIKE
};
