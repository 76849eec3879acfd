//! Qwen 3.5 (text): Qwen3-Next with separate projections, dense.

use crate::{
    Family, Result,
    hybrid::{GGUF_LAYERS, HEAD, HEAD_TENSORS, LAYERS, SEPARATE, hybrid},
    spec::{HeadOrder, ModelSpec},
};
use lamina_store::{Checkpoint, Kind};

pub static FAMILY: Family = Family {
    name: "qwen3.5",
    hf: &["Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"],
    gguf: &["qwen35"],
    full_every: Some(4),
    build: hybrid_in,
    rules: &[HEAD_TENSORS, LAYERS, SEPARATE],
    gguf_rules: &[GGUF_LAYERS],
    ignored: &["mtp."],
    head: HEAD,
    ..Family::LLAMA_LIKE
};

/// GGUF files deal value heads out to key heads in turn.
pub fn hybrid_in(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    hybrid(ck, family, if ck.kind == Kind::Gguf { HeadOrder::Tiled } else { HeadOrder::Grouped })
}
