//! Qwen 3.5 with experts.

use super::{
    qwen2_moe::{sparse, with_shared},
    qwen3_5::{GGUF_LAYERS, RULES, hybrid_in},
};
use crate::Family;

pub static FAMILY: Family = Family {
    name: "qwen3.5-moe",
    hf: &["Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration"],
    gguf: &["qwen35moe"],
    full_every: Some(4),
    build: |ck, family| with_shared(&ck.config, sparse(&ck.config, hybrid_in(ck, family)?, true)?),
    rules: RULES,
    gguf_rules: &[GGUF_LAYERS],
    ignored: &["mtp.", "visual."],
    ..Family::LLAMA_LIKE
};
