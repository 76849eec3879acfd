//! dots.llm1: DeepSeek's routing over attention with a norm of each head.

use crate::{
    Family, llama_like,
    routing::{SHARED_EXPERTS, late_experts},
    spec::{QkSpan, RouterScore},
};

pub static FAMILY: Family = Family {
    name: "dots1",
    hf: &["Dots1ForCausalLM"],
    gguf: &["dots1"],
    build: |ck, family| {
        late_experts(&ck.config, llama_like(ck, family)?.with_qk_norm(QkSpan::Head), RouterScore::Sigmoid)
    },
    rules: &[SHARED_EXPERTS],
    ..Family::LLAMA_LIKE
};
