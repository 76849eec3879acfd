//! Falcon: one key head for all queries (7B), grouped ones (40B), or linear biases (RW).

use crate::{
    Family,
    cut::Cut,
    layer_norm, llama_like,
    names::Rule,
    plain_ffn,
    spec::{Act, Alibi, Place},
};

pub static FAMILY: Family = Family {
    name: "falcon",
    hf: &["FalconForCausalLM", "RWForCausalLM"],
    gguf: &["falcon"],
    build: |ck, family| {
        let c = &ck.config;
        let (new, multi_query) =
            (c.flag("new_decoder_architecture")?, c.opt_bool("multi_query")?.unwrap_or(true));
        let gguf = ck.kind == lamina_store::Kind::Gguf;
        let norms = ["transformer.h.0.ln_attn.weight", "h.0.ln_attn.weight", "blk.0.attn_norm_2.weight"];
        let (two, parallel) =
            (norms.iter().any(|n| ck.tensors.contains_key(*n)), c.opt_bool("parallel_attn")?.unwrap_or(true));
        let place = match (two, new || parallel) {
            (true, _) => Place::Parallel { shared_norm: false },
            (false, true) => Place::Parallel { shared_norm: true },
            (false, false) => Place::Pre,
        };
        let (alibi, norm) = (c.flag("alibi")?, layer_norm(c)?);
        c.ignore(&["num_ln_in_parallel_attn"]);
        let mut spec = llama_like(ck, family)?.each_gqa(|_, g| {
            g.kv_heads = if new || gguf {
                g.kv_heads
            } else if multi_query {
                1
            } else {
                g.heads
            };
            if alibi {
                (g.rope, g.alibi) = (None, Some(Alibi { largest: 8.0, factor: g.scale }));
            }
        });
        spec.final_norm = Some(norm);
        plain_ffn(c, spec.each(|_, l| (l.place, l.norm) = (place, norm)), Act::Gelu)
    },
    rules: &[&[
        Rule::new("token_embd", "transformer.word_embeddings"),
        Rule::new("output_norm", "transformer.ln_f"),
        Rule::new("blk.{i}.attn_norm", "transformer.h.{i}.ln_attn"),
        Rule::new("blk.{i}.attn_norm", "transformer.h.{i}.input_layernorm"),
        Rule::new("blk.{i}.ffn_norm", "transformer.h.{i}.ln_mlp"),
        Rule::new("blk.{i}.ffn_norm", "transformer.h.{i}.post_attention_layernorm"),
        Rule::new("blk.{i}.attn_q", "transformer.h.{i}.self_attention.query_key_value").cut(Cut::GroupedQ),
        Rule::new("blk.{i}.attn_k", "transformer.h.{i}.self_attention.query_key_value").cut(Cut::GroupedK),
        Rule::new("blk.{i}.attn_v", "transformer.h.{i}.self_attention.query_key_value").cut(Cut::GroupedV),
        Rule::new("blk.{i}.attn_output", "transformer.h.{i}.self_attention.dense"),
        Rule::new("blk.{i}.ffn_up", "transformer.h.{i}.mlp.dense_h_to_4h"),
        Rule::new("blk.{i}.ffn_down", "transformer.h.{i}.mlp.dense_4h_to_h"),
    ]],
    // Where there are two norms, files call that of the feed-forward part `attn_norm`.
    gguf_rules: &[&[
        Rule::new("blk.{i}.attn_norm", "blk.{i}.attn_norm_2"),
        Rule::new("blk.{i}.ffn_norm", "blk.{i}.attn_norm"),
    ]],
    ..Family::LLAMA_LIKE
};
