//! Qwen1.5-MoE and Qwen2-57B-A14B: experts beside a shared one with a gate.

use crate::{
    Family, llama_like,
    routing::{sparse, with_gated_shared},
};

pub static FAMILY: Family = Family {
    name: "qwen2-moe",
    hf: &["Qwen2MoeForCausalLM"],
    gguf: &["qwen2moe"],
    build: |ck, family| with_gated_shared(&ck.config, sparse(&ck.config, llama_like(ck, family)?, false)?),
    ..Family::LLAMA_LIKE
};
