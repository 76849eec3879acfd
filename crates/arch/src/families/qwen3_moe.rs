//! Qwen 3 with experts.

use crate::{Family, llama_like, routing::sparse, spec::QkSpan};

pub static FAMILY: Family = Family {
    name: "qwen3-moe",
    hf: &["Qwen3MoeForCausalLM", "Qwen3VLMoeForConditionalGeneration"],
    gguf: &["qwen3moe", "qwen3vlmoe"],
    build: |ck, family| sparse(&ck.config, llama_like(ck, family)?.with_qk_norm(QkSpan::Head), true),
    ..Family::LLAMA_LIKE
};
