//! BERT and its many embedding models (bge, e5, gte, MiniLM), with the rerankers made of it.

use crate::{
    Family,
    bert_like::{BERT, OUTPUT_NORMS, UNUSED, bert_like},
};

pub static FAMILY: Family = Family {
    name: "bert",
    hf: &["BertModel", "BertForMaskedLM", "BertForPreTraining", "BertForSequenceClassification"],
    gguf: &["bert"],
    build: |ck, family| bert_like(ck, family, 0),
    rules: &[BERT],
    gguf_rules: &[OUTPUT_NORMS],
    ignored: UNUSED,
    ..Family::LLAMA_LIKE
};
