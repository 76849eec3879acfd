//! Phi 3, 3.5 and 4: Llama with fused projections, some with LongRoPE.

use crate::{Family, llama_like, names::Rule};

pub static FAMILY: Family = Family {
    name: "phi3",
    hf: &["Phi3ForCausalLM"],
    gguf: &["phi3"],
    build: |ck, family| {
        // Written even where nothing is stretched.
        let unused = ["original_max_position_embeddings", "rope_parameters.original_max_position_embeddings"];
        ck.config.ignore(&unused);
        llama_like(ck, family)
    },
    rules: &[
        &Rule::qkv("model.layers.{i}.self_attn.qkv_proj"),
        &Rule::halves("blk.{i}.ffn_gate", "blk.{i}.ffn_up", "model.layers.{i}.mlp.gate_up_proj"),
    ],
    gguf_rules: &[GATE_IN_UP],
    ..Family::LLAMA_LIKE
};

/// GGUF files keep gate and up together under the name of up.
pub const GATE_IN_UP: &[Rule] = &Rule::halves("blk.{i}.ffn_gate", "blk.{i}.ffn_up", "blk.{i}.ffn_up");
