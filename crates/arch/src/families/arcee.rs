//! Arcee AFM: Llama with squared ReLU and no gate.

use crate::{
    Family, llama_like, plain_ffn,
    spec::{Act, Pairs},
};

pub static FAMILY: Family = Family {
    name: "arcee",
    hf: &["ArceeForCausalLM"],
    gguf: &["arcee"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    build: |ck, family| plain_ffn(&ck.config, llama_like(ck, family)?, Act::ReluSquared),
    ..Family::LLAMA_LIKE
};
