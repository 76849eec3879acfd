//! EXAONE 4: norms behind every part and on each head; where layers slide, the full ones have no positions.

use super::olmo2::POST_NORMS;
use crate::{
    Family, llama_like,
    spec::{Mask, Place, QkSpan},
};

pub static FAMILY: Family = Family {
    name: "exaone4",
    hf: &["Exaone4ForCausalLM"],
    gguf: &["exaone4"],
    full_every: Some(4),
    build: |ck, family| {
        let slides = ck.config.opt_usize("sliding_window")?.is_some_and(|n| n > 0);
        let spec = llama_like(ck, family)?.each(|_, l| l.place = Place::Post);
        let spec = spec.each_gqa(|_, g| g.rope = g.rope.take().filter(|_| !slides || g.mask != Mask::Causal));
        Ok(spec.with_qk_norm(QkSpan::Head))
    },
    rules: &[POST_NORMS],
    ..Family::LLAMA_LIKE
};
