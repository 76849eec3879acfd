//! nomic-bert: BERT with rotary positions and a gated feed-forward part.

use crate::{
    ArchError, Family,
    bert_like::{NOMIC, OUTPUT_NORMS, UNUSED, encoder},
    names::Rule,
};

pub static FAMILY: Family = Family {
    name: "nomic-bert",
    hf: &["NomicBertModel"],
    gguf: &["nomic-bert"],
    build: |ck, family| {
        let c = &ck.config;
        for key in ["prenorm", "rotary_emb_interleaved", "parallel_block", "causal"] {
            if c.flag(key)? {
                return Err(ArchError::value(key, true, "false"));
            }
        }
        if c.opt_f32("rotary_emb_fraction")?.is_some_and(|share| share != 1.0) {
            return Err(ArchError::value("rotary_emb_fraction", "a part", "1: whole heads rotate"));
        }
        c.ignore(NOMIC);
        encoder(ck, family)
    },
    rules: &[
        &Rule::qkv("bert.encoder.layers.{i}.attn.Wqkv"),
        &[
            Rule::new("token_embd", "bert.embeddings.word_embeddings"),
            Rule::new("token_types", "bert.embeddings.token_type_embeddings"),
            Rule::new("token_embd_norm", "bert.emb_ln"),
            Rule::new("blk.{i}.attn_output", "bert.encoder.layers.{i}.attn.out_proj"),
            Rule::new("blk.{i}.attn_norm", "bert.encoder.layers.{i}.norm1"),
            Rule::new("blk.{i}.ffn_up", "bert.encoder.layers.{i}.mlp.fc11"),
            Rule::new("blk.{i}.ffn_gate", "bert.encoder.layers.{i}.mlp.fc12"),
            Rule::new("blk.{i}.ffn_down", "bert.encoder.layers.{i}.mlp.fc2"),
            Rule::new("blk.{i}.ffn_norm", "bert.encoder.layers.{i}.norm2"),
        ],
    ],
    gguf_rules: &[OUTPUT_NORMS],
    ignored: UNUSED,
    ..Family::LLAMA_LIKE
};
