//! Granite 3 with experts, and with a shared expert beside them.

use super::{granite::granite_like, mixtral::with_experts};
use crate::{
    Family,
    cut::Cut,
    names::Rule,
    spec::{Ffn, Pairs, Score, Shared},
};

pub static FAMILY: Family = Family {
    name: "granite-moe",
    hf: &["GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"],
    gguf: &["granitemoe"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    build: |ck, family| {
        let spec = with_experts(&ck.config, granite_like(ck, family)?)?;
        let shared = ck.config.opt_usize("shared_expert_intermediate_size")?.filter(|&n| n > 0);
        Ok(spec.each(|_, l| {
            if let Ffn::Moe(m) = &mut l.ffn {
                (m.score, m.renorm) = (Score::SoftmaxOfChosen, false);
                m.shared = shared.map(|inner| Shared { inner, gated: false });
            }
        }))
    },
    rules: &[RULES],
    ..Family::LLAMA_LIKE
};

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
