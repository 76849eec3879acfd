//! MiMo: Qwen 2 with layers that guess further tokens.

use crate::{
    Family, HeadStyle,
    names::Rule,
    spec::{HeadFeed, JoinFirst},
};

pub static FAMILY: Family = Family {
    name: "mimo",
    hf: &["MiMoForCausalLM"],
    rules: &[&[
        Rule::new("blk.{i}.nextn.eh_proj", "model.mtp_layers.{h}.input_proj"),
        Rule::new("blk.{i}.nextn.enorm", "model.mtp_layers.{h}.token_layernorm"),
        Rule::new("blk.{i}.nextn.hnorm", "model.mtp_layers.{h}.hidden_layernorm"),
        Rule::new("blk.{i}.nextn.shared_head_norm", "model.mtp_layers.{h}.final_layernorm"),
    ]],
    ignored: &[".mtp_layers."],
    head: HeadStyle {
        layers: "model.mtp_layers.{h}.",
        first: JoinFirst::Hidden,
        feed: HeadFeed::Normed,
        ..HeadStyle::NEXTN
    },
    ..Family::LLAMA_LIKE
};
