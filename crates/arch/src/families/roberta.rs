//! RoBERTa and XLM-RoBERTa (bge-m3, multilingual e5, the bge rerankers): BERT whose positions begin behind the padding's
//! number. Folders of jina-embeddings v3 go by its name.

use crate::{
    Family,
    bert_like::{BERT, JINA_V3_NAMES, UNUSED, bert_like, jina_v3},
    names::Rule,
};

pub static FAMILY: Family = Family {
    name: "roberta",
    hf: &[
        "RobertaModel",
        "RobertaForMaskedLM",
        "RobertaForSequenceClassification",
        "XLMRobertaModel",
        "XLMRobertaForMaskedLM",
        "XLMRobertaForSequenceClassification",
        "CamembertModel",
        "CamembertForMaskedLM",
        "CamembertForSequenceClassification",
    ],
    build: |ck, family| {
        if ck.config.opt_str("position_embedding_type")? == Some("rotary") {
            return jina_v3(ck, family);
        }
        let padding = ck.config.opt_usize("pad_token_id")?.unwrap_or(1);
        bert_like(ck, family, padding.saturating_add(1))
    },
    rules: &[
        &[Rule::new("cls", "classifier.dense"), Rule::new("cls.output", "classifier.out_proj")],
        BERT,
        JINA_V3_NAMES,
    ],
    ignored: UNUSED,
    ..Family::LLAMA_LIKE
};
