//! Qwen 3 with experts.

use super::{qwen2_moe::sparse, qwen3::with_head_norm};
use crate::{Family, llama_like};

pub static FAMILY: Family = Family {
    name: "qwen3-moe",
    hf: &["Qwen3MoeForCausalLM"],
    gguf: &["qwen3moe"],
    build: |ck, family| sparse(&ck.config, with_head_norm(llama_like(ck, family)?)?, true),
    ..Family::LLAMA_LIKE
};
