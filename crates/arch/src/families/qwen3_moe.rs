//! Qwen 3 with experts.

use super::{qwen2_moe::sparse, qwen3::with_qk_norm};
use crate::{Family, llama_like, spec::QkSpan};

pub static FAMILY: Family = Family {
    name: "qwen3-moe",
    hf: &["Qwen3MoeForCausalLM", "Qwen3VLMoeForConditionalGeneration"],
    gguf: &["qwen3moe", "qwen3vlmoe"],
    ignored: &["visual."],
    build: |ck, family| sparse(&ck.config, with_qk_norm(llama_like(ck, family)?, QkSpan::Head), true),
    ..Family::LLAMA_LIKE
};
