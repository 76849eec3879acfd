//! jina-embeddings v3 in GGUF files; folders go by the name of XLM-RoBERTa.

use crate::{
    Family,
    bert_like::{OUTPUT_NORMS, UNUSED, jina_v3},
};

pub static FAMILY: Family = Family {
    name: "jina-bert-v3",
    gguf: &["jina-bert-v3"],
    build: jina_v3,
    gguf_rules: &[OUTPUT_NORMS],
    ignored: UNUSED,
    ..Family::LLAMA_LIKE
};
