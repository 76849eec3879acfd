//! Llama 1 to 3 and what copies it. GGUF files of Mistral and Mixtral carry this name too.

use super::mixtral;
use crate::{Family, llama_like, spec::Pairs};

pub static FAMILY: Family = Family {
    name: "llama",
    hf: &["LlamaForCausalLM", "LLaMAForCausalLM"],
    gguf: &["llama"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    build: |ck, family| mixtral::with_experts(&ck.config, llama_like(ck, family)?),
    ..Family::LLAMA_LIKE
};
