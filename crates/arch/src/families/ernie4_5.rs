//! ERNIE 4.5 (dense): Llama with adjacent rotary pairs.

use crate::{Family, spec::Pairs};

pub static FAMILY: Family = Family {
    name: "ernie4.5",
    hf: &["Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"],
    gguf: &["ernie4_5"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    ..Family::LLAMA_LIKE
};
