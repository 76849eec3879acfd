//! dots.llm1: DeepSeek's routing over attention with a norm of each head.

use super::{deepseek_v2::RULES, qwen3::with_qk_norm};
use crate::{
    Family, llama_like,
    routing::late_experts,
    spec::{QkSpan, Score},
};

pub static FAMILY: Family = Family {
    name: "dots1",
    hf: &["Dots1ForCausalLM"],
    gguf: &["dots1"],
    build: |ck, family| {
        late_experts(&ck.config, with_qk_norm(llama_like(ck, family)?, QkSpan::Head), Score::Sigmoid)
    },
    rules: &[RULES],
    ..Family::LLAMA_LIKE
};
