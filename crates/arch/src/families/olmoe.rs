//! OLMoE: experts, and one norm over all queries or keys.

use crate::{ArchError, Family, llama_like, routing::sparse, spec::QkSpan};

pub static FAMILY: Family = Family {
    name: "olmoe",
    hf: &["OlmoeForCausalLM"],
    gguf: &["olmoe"],
    build: |ck, family| {
        // The cut would come behind the norm; no published model has one.
        if let Some(clip) = ck.config.opt_f32("clip_qkv")? {
            return Err(ArchError::value("clip_qkv", clip, "null"));
        }
        sparse(&ck.config, llama_like(ck, family)?.with_qk_norm(QkSpan::Full), false)
    },
    ..Family::LLAMA_LIKE
};
