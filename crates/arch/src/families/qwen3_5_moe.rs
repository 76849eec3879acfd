//! Qwen 3.5 with experts.

use super::qwen3_5::hybrid_in;
use crate::{
    Family,
    hybrid::{GGUF_LAYERS, HEAD, HEAD_TENSORS, LAYERS, SEPARATE},
    routing::{sparse, with_gated_shared},
};

pub static FAMILY: Family = Family {
    name: "qwen3.5-moe",
    hf: &["Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration"],
    gguf: &["qwen35moe"],
    full_every: Some(4),
    build: |ck, family| with_gated_shared(&ck.config, sparse(&ck.config, hybrid_in(ck, family)?, true)?),
    rules: &[HEAD_TENSORS, LAYERS, SEPARATE],
    gguf_rules: &[GGUF_LAYERS],
    ignored: &["mtp."],
    head: HEAD,
    ..Family::LLAMA_LIKE
};
