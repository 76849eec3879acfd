//! GPT-J: attention and feed-forward side by side behind one norm, adjacent rotary pairs.

use crate::{
    Family, layer_norm, llama_like,
    names::Rule,
    plain_ffn,
    spec::{Act, Pairs, Place},
};

pub static FAMILY: Family = Family {
    name: "gpt-j",
    hf: &["GPTJForCausalLM"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    build: |ck, family| {
        let norm = layer_norm(&ck.config)?;
        let place = Place::Parallel { shared_norm: true };
        let spec = llama_like(ck, family)?.with_norm(norm).each(|_, l| l.place = place);
        plain_ffn(&ck.config, spec, Act::GeluTanh)
    },
    rules: &[&[
        Rule::new("token_embd", "transformer.wte"),
        Rule::new("output_norm", "transformer.ln_f"),
        Rule::new("blk.{i}.attn_norm", "transformer.h.{i}.ln_1"),
        Rule::new("blk.{i}.attn_q", "transformer.h.{i}.attn.q_proj"),
        Rule::new("blk.{i}.attn_k", "transformer.h.{i}.attn.k_proj"),
        Rule::new("blk.{i}.attn_v", "transformer.h.{i}.attn.v_proj"),
        Rule::new("blk.{i}.attn_output", "transformer.h.{i}.attn.out_proj"),
        Rule::new("blk.{i}.ffn_up", "transformer.h.{i}.mlp.fc_in"),
        Rule::new("blk.{i}.ffn_down", "transformer.h.{i}.mlp.fc_out"),
    ]],
    ..Family::LLAMA_LIKE
};
