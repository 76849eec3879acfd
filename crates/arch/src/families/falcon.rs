//! Falcon: one key head for all queries (7B), grouped ones (40B), or linear biases (RW).

use crate::{Family, has_ending, layer_norm, llama_like, names::Rule, plain_ffn, spec::*};

pub static FAMILY: Family = Family {
    name: "falcon",
    hf: &["FalconForCausalLM", "RWForCausalLM"],
    gguf: &["falcon"],
    build: |ck, family| {
        let c = &ck.config;
        let (new, alibi) = (c.flag("new_decoder_architecture")?, c.flag("alibi")?);
        let two = has_ending(ck, &["h.0.ln_attn.weight", "blk.0.attn_norm_2.weight"]);
        let parallel = two || new || c.opt_bool("parallel_attn")?.unwrap_or(true);
        let place = if parallel { Place::Parallel { shared_norm: !two } } else { Place::Pre };
        // The first ones have a flag instead of a number; GGUF files have the number.
        let flagged = !new && ck.kind == lamina_store::Kind::HuggingFace;
        let one = flagged && c.opt_bool("multi_query")?.unwrap_or(true);
        let spec = llama_like(ck, family)?.with_norm(layer_norm(c)?).each_gqa(|_, g| {
            g.kv_heads = if one { 1 } else { g.kv_heads };
            g.rope = g.rope.take().filter(|_| !alibi);
            g.alibi = alibi.then_some(Alibi { largest: 8.0, factor: g.scale });
        });
        plain_ffn(c, spec.each(|_, l| l.place = place), Act::Gelu)
    },
    rules: &[
        &Rule::grouped_qkv("transformer.h.{i}.self_attention.query_key_value"),
        &[
            Rule::new("token_embd", "transformer.word_embeddings"),
            Rule::new("output_norm", "transformer.ln_f"),
            Rule::new("blk.{i}.attn_norm", "transformer.h.{i}.ln_attn"),
            Rule::new("blk.{i}.attn_norm", "transformer.h.{i}.input_layernorm"),
            Rule::new("blk.{i}.ffn_norm", "transformer.h.{i}.ln_mlp"),
            Rule::new("blk.{i}.ffn_norm", "transformer.h.{i}.post_attention_layernorm"),
            Rule::new("blk.{i}.attn_output", "transformer.h.{i}.self_attention.dense"),
            Rule::new("blk.{i}.ffn_up", "transformer.h.{i}.mlp.dense_h_to_4h"),
            Rule::new("blk.{i}.ffn_down", "transformer.h.{i}.mlp.dense_4h_to_h"),
        ],
    ],
    // Where there are two norms, files call that of the feed-forward part `attn_norm`.
    gguf_rules: &[&[
        Rule::new("blk.{i}.attn_norm", "blk.{i}.attn_norm_2"),
        Rule::new("blk.{i}.ffn_norm", "blk.{i}.attn_norm"),
    ]],
    ..Family::LLAMA_LIKE
};
