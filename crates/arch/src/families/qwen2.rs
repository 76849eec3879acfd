//! Qwen 2 and 2.5, also as the language model beside images: Llama with biases on queries, keys and values.

use crate::Family;

pub static FAMILY: Family = Family {
    name: "qwen2",
    hf: &["Qwen2ForCausalLM", "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"],
    gguf: &["qwen2", "qwen2vl"],
    ..Family::LLAMA_LIKE
};
