//! Granite 3 with experts, and with a shared expert beside them.

use super::granite::granite_like;
use crate::{
    Family, Result,
    cut::Cut,
    names::Rule,
    routing::{self, with_shared},
    spec::{ModelSpec, Pairs, RouterScore},
};
use lamina_store::Config;

pub static FAMILY: Family = Family {
    name: "granite-moe",
    hf: &["GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"],
    gguf: &["granitemoe"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    build: |ck, family| with_experts(&ck.config, granite_like(ck, family)?),
    rules: &[RULES],
    ..Family::LLAMA_LIKE
};

/// Granite's experts, if the configuration has any.
pub fn with_experts(c: &Config, spec: ModelSpec) -> Result<ModelSpec> {
    let spec = with_shared(c, routing::with_experts(c, spec)?)?;
    Ok(spec.each_moe(|m| (m.score, m.renorm) = (RouterScore::SoftmaxOfChosen, false)))
}

const GATE_UP: &str = "model.layers.{i}.block_sparse_moe.input_linear";

/// Names of the experts.
pub const RULES: &[Rule] = &[
    Rule::new("blk.{i}.ffn_gate_inp", "model.layers.{i}.block_sparse_moe.router.layer"),
    Rule::new("blk.{i}.ffn_gate_exps", GATE_UP).cut(Cut::ExpertFirstHalf),
    Rule::new("blk.{i}.ffn_up_exps", GATE_UP).cut(Cut::ExpertSecondHalf),
    Rule::new("blk.{i}.ffn_down_exps", "model.layers.{i}.block_sparse_moe.output_linear"),
    Rule::new("blk.{i}.ffn_gate_shexp", "model.layers.{i}.shared_mlp.input_linear").cut(Cut::FirstHalf),
    Rule::new("blk.{i}.ffn_up_shexp", "model.layers.{i}.shared_mlp.input_linear").cut(Cut::SecondHalf),
    Rule::new("blk.{i}.ffn_down_shexp", "model.layers.{i}.shared_mlp.output_linear"),
];
