//! OLMo 1: layer norms without weights, and cut queries, keys and values.

use crate::{
    Family, llama_like,
    spec::{Norm, NormKind, Pairs},
};

pub static FAMILY: Family = Family {
    name: "olmo",
    hf: &["OlmoForCausalLM"],
    gguf: &["olmo"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    build: |ck, family| {
        let clip = ck.config.opt_f32("clip_qkv")?.filter(|&c| c > 0.0);
        let norm = Norm { kind: NormKind::Layer, eps: 1e-5 };
        Ok(llama_like(ck, family)?.with_norm(norm).each_gqa(|_, g| g.clip = clip))
    },
    ..Family::LLAMA_LIKE
};
