//! jina-bert v2: BERT with linear position biases on both sides and a gated feed-forward part.

use crate::{
    Family,
    bert_like::{BERT, OUTPUT_NORMS, UNUSED, encoder},
    cut::Cut,
    names::Rule,
    spec::{Act, Alibi, Ffn},
};

pub static FAMILY: Family = Family {
    name: "jina-bert-v2",
    hf: &["JinaBertModel", "JinaBertForMaskedLM", "JinaBertForSequenceClassification"],
    gguf: &["jina-bert-v2"],
    build: |ck, family| {
        let c = &ck.config;
        let act = match c.opt_str("feed_forward_type")? {
            Some("reglu") => Act::Relu,
            None | Some("geglu") => Act::Gelu,
            Some(other) => return Err(crate::ArchError::value("feed_forward_type", other, "geglu reglu")),
        };
        let alibi = Some(Alibi { largest: 8.0, factor: 1.0 });
        c.ignore(&["hidden_act", "emb_pooler", "attn_implementation", "model_max_length"]);
        let spec = encoder(ck, family)?.each_gqa(|_, g| (g.rope, g.alibi) = (None, alibi));
        Ok(spec.each(|_, l| {
            if let Ffn::Dense(d) = &mut l.ffn {
                d.act = act;
            }
        }))
    },
    rules: &[
        &[
            Rule::new("blk.{i}.ffn_gate", "bert.encoder.layer.{i}.mlp.gated_layers").cut(Cut::FirstHalf),
            Rule::new("blk.{i}.ffn_up", "bert.encoder.layer.{i}.mlp.gated_layers").cut(Cut::SecondHalf),
            Rule::new("blk.{i}.ffn_down", "bert.encoder.layer.{i}.mlp.wo"),
            Rule::new("blk.{i}.ffn_norm", "bert.encoder.layer.{i}.mlp.layernorm"),
        ],
        BERT,
    ],
    gguf_rules: &[OUTPUT_NORMS],
    ignored: UNUSED,
    ..Family::LLAMA_LIKE
};
