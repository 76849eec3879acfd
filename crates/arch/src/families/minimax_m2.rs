//! MiniMax M2: sigmoid routing with a bias that steers the choice, one norm over all queries or keys.

use super::mixtral;
use crate::{
    Family, llama_like,
    names::Rule,
    routing::with_experts,
    spec::{QkSpan, RouterScore},
};

pub static FAMILY: Family = Family {
    name: "minimax-m2",
    hf: &["MiniMaxM2ForCausalLM"],
    gguf: &["minimax-m2"],
    build: |ck, family| {
        ck.config.ignore(&[
            "scoring_func",
            "use_qk_norm",
            "qk_norm_type",
            "use_routing_bias",
            "attn_type_list",
        ]);
        let spec = with_experts(&ck.config, llama_like(ck, family)?.with_qk_norm(QkSpan::Full))?;
        Ok(spec.each_moe(|m| m.score = RouterScore::Sigmoid))
    },
    rules: &[
        &[Rule::new("blk.{i}.exp_probs_b.bias", "model.layers.{i}.block_sparse_moe.e_score_correction_bias")],
        &[Rule::new("blk.{i}.exp_probs_b.bias", "model.layers.{i}.mlp.e_score_correction_bias")],
        mixtral::RULES,
    ],
    ignored: &["mtp."],
    ..Family::LLAMA_LIKE
};
