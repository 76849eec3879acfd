//! Mistral, also as the language model beside images: Llama, the first one with a sliding window.

use crate::{ArchError, Family, llama_like, spec::Pairs};

pub static FAMILY: Family = Family {
    name: "mistral",
    hf: &["MistralForCausalLM", "MinistralForCausalLM", "Mistral3ForConditionalGeneration"],
    gguf: &["mistral", "mistral3"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    build: |ck, family| {
        // Ministral 3 scales its queries by position, from another position on than Llama 4.
        for key in ["rope_parameters.llama_4_scaling_beta", "attn_scale"] {
            if let Some(beta) = ck.config.opt_f32(key)?.filter(|&b| b != 0.0) {
                return Err(ArchError::value(key, beta, "missing: such models are not supported yet"));
            }
        }
        llama_like(ck, family)
    },
    ignored: &["vision_tower.", "multi_modal_projector.", "vision_encoder.", "patch_merger."],
    ..Family::LLAMA_LIKE
};
