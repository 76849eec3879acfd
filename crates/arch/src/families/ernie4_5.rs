//! ERNIE 4.5 (dense): Llama with adjacent rotary pairs.

use crate::{Family, HeadStyle, names::Rule, spec::Pairs};

pub static FAMILY: Family = Family {
    name: "ernie4.5",
    hf: &["Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"],
    gguf: &["ernie4_5"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    rules: &[HEAD_TENSORS],
    ignored: &["mtp_"],
    head: HeadStyle::ERNIE,
    ..Family::LLAMA_LIKE
};

/// What stands beside a layer that guesses further tokens.
pub(super) const HEAD_TENSORS: &[Rule] = &[
    Rule::new("blk.{i}.nextn.eh_proj", "model.mtp_linear_proj.{h}"),
    Rule::new("blk.{i}.nextn.enorm", "model.mtp_emb_norm.{h}"),
    Rule::new("blk.{i}.nextn.hnorm", "model.mtp_hidden_norm.{h}"),
];
