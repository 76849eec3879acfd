//! GPT-2: learned positions, biases, matrices stored transposed.

use crate::{
    Family,
    cut::Cut,
    layer_norm, llama_like,
    names::{Edit, Rule},
    plain_ffn,
    spec::Act,
};

pub static FAMILY: Family = Family {
    name: "gpt2",
    hf: &["GPT2LMHeadModel"],
    gguf: &["gpt2"],
    build: |ck, family| {
        let c = &ck.config;
        let scaled = c.opt_bool("scale_attn_weights")?.unwrap_or(true);
        let by_layer = c.flag("scale_attn_by_inverse_layer_idx")?;
        let norm = layer_norm(c)?;
        let mut spec = llama_like(ck, family)?.with_norm(norm).each_gqa(|i, g| {
            g.rope = None;
            g.scale = if scaled { g.scale } else { 1.0 } / if by_layer { (i + 1) as f32 } else { 1.0 };
        });
        spec.embed.positions = Some(0);
        c.ignore(&["add_cross_attention", "reorder_and_upcast_attn"]);
        plain_ffn(c, spec, Act::GeluTanh)
    },
    rules: &[&[
        Rule::new("token_embd", "transformer.wte"),
        Rule::new("position_embd", "transformer.wpe"),
        Rule::new("output_norm", "transformer.ln_f"),
        Rule::new("blk.{i}.attn_norm", "transformer.h.{i}.ln_1"),
        Rule::new("blk.{i}.attn_q", "transformer.h.{i}.attn.c_attn").cut(Cut::Q).edit(Edit::Transpose),
        Rule::new("blk.{i}.attn_k", "transformer.h.{i}.attn.c_attn").cut(Cut::K).edit(Edit::Transpose),
        Rule::new("blk.{i}.attn_v", "transformer.h.{i}.attn.c_attn").cut(Cut::V).edit(Edit::Transpose),
        Rule::new("blk.{i}.attn_output", "transformer.h.{i}.attn.c_proj").edit(Edit::Transpose),
        Rule::new("blk.{i}.ffn_norm", "transformer.h.{i}.ln_2"),
        Rule::new("blk.{i}.ffn_up", "transformer.h.{i}.mlp.c_fc").edit(Edit::Transpose),
        Rule::new("blk.{i}.ffn_down", "transformer.h.{i}.mlp.c_proj").edit(Edit::Transpose),
    ]],
    ..Family::LLAMA_LIKE
};
