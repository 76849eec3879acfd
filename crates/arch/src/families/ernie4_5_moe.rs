//! ERNIE 4.5 with experts: a bias steers which ones are chosen.

use super::ernie4_5::HEAD_TENSORS;
use crate::{
    ArchError, Family, HeadStyle, llama_like,
    names::Rule,
    routing::{SHARED_EXPERTS, late_experts},
    spec::{Pairs, RouterScore},
};

pub static FAMILY: Family = Family {
    name: "ernie4.5-moe",
    hf: &["Ernie4_5_MoeForCausalLM"],
    gguf: &["ernie4_5-moe"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    build: |ck, family| {
        let (c, spec) = (&ck.config, llama_like(ck, family)?);
        let last = c.value("moe_layer_end_index").and_then(|v| v.as_i64()).unwrap_or(-1);
        if last != -1 && last + 1 != spec.layers.len() as i64 {
            return Err(ArchError::value("moe_layer_end_index", last, "the last layer"));
        }
        c.ignore(&["moe_norm_min"]);
        Ok(late_experts(c, spec, RouterScore::Softmax)?.each_moe(|m| m.renorm = true))
    },
    rules: &[
        HEAD_TENSORS,
        SHARED_EXPERTS,
        &[Rule::new("blk.{i}.exp_probs_b.bias", "model.layers.{i}.mlp.moe_statics.e_score_correction_bias")],
        &[Rule::new(
            "blk.{i}.exp_probs_b.bias",
            "model.layers.{i}.mlp.gate.moe_statics.e_score_correction_bias",
        )],
    ],
    ignored: &["mtp"],
    head: HeadStyle::ERNIE,
    ..Family::LLAMA_LIKE
};
