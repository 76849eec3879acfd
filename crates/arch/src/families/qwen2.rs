//! Qwen 2 and 2.5: Llama with biases on queries, keys and values.

use crate::Family;

pub static FAMILY: Family =
    Family { name: "qwen2", hf: &["Qwen2ForCausalLM"], gguf: &["qwen2"], ..Family::LLAMA_LIKE };
