//! Command R7B and Command A: parts side by side, rotary positions in the sliding layers only, scaled logits.

use crate::{
    Family, llama_like,
    spec::{Mask, Pairs, Place},
};

pub static FAMILY: Family = Family {
    name: "cohere2",
    hf: &["Cohere2ForCausalLM"],
    gguf: &["cohere2"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    full_every: Some(4),
    build: |ck, family| {
        let mut spec = llama_like(ck, family)?.each(|_, l| l.place = Place::Parallel { shared_norm: true });
        spec.head.scale = ck.config.opt_f32("logit_scale")?.unwrap_or(0.0625);
        Ok(spec.each_gqa(|_, g| g.rope = g.rope.take().filter(|_| g.mask != Mask::Causal)))
    },
    ..Family::LLAMA_LIKE
};
