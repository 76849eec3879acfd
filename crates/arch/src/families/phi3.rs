//! Phi 3, 3.5 and 4: Llama with fused projections, some with LongRoPE.

use crate::{Family, cut::Cut, llama_like, names::Rule};

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
    rules: &[FUSED],
    gguf_rules: &[GATE_IN_UP],
    ..Family::LLAMA_LIKE
};

/// Fused names of Hugging Face checkpoints.
const FUSED: &[Rule] = &[
    Rule::new("blk.{i}.attn_q", "model.layers.{i}.self_attn.qkv_proj").cut(Cut::Q),
    Rule::new("blk.{i}.attn_k", "model.layers.{i}.self_attn.qkv_proj").cut(Cut::K),
    Rule::new("blk.{i}.attn_v", "model.layers.{i}.self_attn.qkv_proj").cut(Cut::V),
    Rule::new("blk.{i}.ffn_gate", "model.layers.{i}.mlp.gate_up_proj").cut(Cut::FirstHalf),
    Rule::new("blk.{i}.ffn_up", "model.layers.{i}.mlp.gate_up_proj").cut(Cut::SecondHalf),
];

/// GGUF files keep gate and up together under the name of up.
pub const GATE_IN_UP: &[Rule] = &[
    Rule::new("blk.{i}.ffn_gate", "blk.{i}.ffn_up").cut(Cut::FirstHalf),
    Rule::new("blk.{i}.ffn_up", "blk.{i}.ffn_up").cut(Cut::SecondHalf),
];
