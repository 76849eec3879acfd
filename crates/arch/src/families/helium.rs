//! Helium: Llama with adjacent rotary pairs.

use crate::{Family, spec::Pairs};

pub static FAMILY: Family = Family {
    name: "helium",
    hf: &["HeliumForCausalLM"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    ..Family::LLAMA_LIKE
};
