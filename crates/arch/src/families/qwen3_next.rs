//! Qwen3-Next: three gated delta nets and one gated attention in turn, experts with a shared one.

use crate::{
    Family,
    hybrid::{FUSED, GGUF_FUSED, GGUF_LAYERS, HEAD, HEAD_TENSORS, LAYERS, hybrid},
    routing::{sparse, with_gated_shared},
    spec::HeadOrder,
};

pub static FAMILY: Family = Family {
    name: "qwen3-next",
    hf: &["Qwen3NextForCausalLM"],
    gguf: &["qwen3next"],
    full_every: Some(4),
    build: |ck, family| {
        let spec = hybrid(ck, family, HeadOrder::Grouped)?;
        with_gated_shared(&ck.config, sparse(&ck.config, spec, true)?)
    },
    rules: &[HEAD_TENSORS, LAYERS, FUSED],
    gguf_rules: &[GGUF_LAYERS, GGUF_FUSED],
    ignored: &["mtp."],
    head: HEAD,
    ..Family::LLAMA_LIKE
};
