//! Llama 1 to 3 and what copies it. GGUF files of Mistral and Mixtral carry this name too.

use crate::{Family, llama_like, routing::with_experts, spec::Pairs};

pub static FAMILY: Family = Family {
    name: "llama",
    hf: &["LlamaForCausalLM", "LLaMAForCausalLM", "InternLM3ForCausalLM"],
    gguf: &["llama"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    build: |ck, family| with_experts(&ck.config, llama_like(ck, family)?),
    ..Family::LLAMA_LIKE
};
