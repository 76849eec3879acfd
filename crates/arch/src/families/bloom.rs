//! BLOOM: linear position biases, a norm on the embedding, biases everywhere.

use crate::{
    Family, layer_norm, llama_like,
    names::Rule,
    plain_ffn,
    spec::{Act, Alibi, Place},
};

pub static FAMILY: Family = Family {
    name: "bloom",
    hf: &["BloomForCausalLM", "BloomModel"],
    gguf: &["bloom"],
    build: |ck, family| {
        let norm = layer_norm(&ck.config)?;
        let from_norm = ck.config.flag("apply_residual_connection_post_layernorm")?;
        let place = if from_norm { Place::FromNorm } else { Place::Pre };
        let alibi = Some(Alibi { largest: 8.0, factor: 1.0 });
        let spec = llama_like(ck, family)?.with_norm(norm).each(|_, l| l.place = place);
        let mut spec = spec.each_gqa(|_, g| (g.rope, g.alibi) = (None, alibi));
        spec.embed.norm = Some(norm);
        plain_ffn(&ck.config, spec, Act::GeluTanh)
    },
    rules: &[
        &Rule::grouped_qkv("transformer.h.{i}.self_attention.query_key_value"),
        &[
            Rule::new("token_embd", "transformer.word_embeddings"),
            Rule::new("token_embd_norm", "transformer.word_embeddings_layernorm"),
            Rule::new("output_norm", "transformer.ln_f"),
            Rule::new("blk.{i}.attn_norm", "transformer.h.{i}.input_layernorm"),
            Rule::new("blk.{i}.attn_output", "transformer.h.{i}.self_attention.dense"),
            Rule::new("blk.{i}.ffn_norm", "transformer.h.{i}.post_attention_layernorm"),
            Rule::new("blk.{i}.ffn_up", "transformer.h.{i}.mlp.dense_h_to_4h"),
            Rule::new("blk.{i}.ffn_down", "transformer.h.{i}.mlp.dense_4h_to_h"),
        ],
    ],
    ..Family::LLAMA_LIKE
};
