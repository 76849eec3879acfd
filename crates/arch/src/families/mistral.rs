//! Mistral 7B and its followers: Llama with a sliding window.

use crate::{Family, spec::Pairs};

pub static FAMILY: Family = Family {
    name: "mistral",
    hf: &["MistralForCausalLM"],
    gguf: &["mistral"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    ..Family::LLAMA_LIKE
};
