//! Qwen 3: a norm on each query and key head instead of biases.

use crate::{Family, llama_like, spec::QkSpan};

pub static FAMILY: Family = Family {
    name: "qwen3",
    hf: &["Qwen3ForCausalLM", "Qwen3VLForConditionalGeneration"],
    gguf: &["qwen3", "qwen3vl"],
    build: |ck, family| Ok(llama_like(ck, family)?.with_qk_norm(QkSpan::Head)),
    ..Family::LLAMA_LIKE
};
