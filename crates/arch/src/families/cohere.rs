//! Command R: parts side by side, optional norms of each head, scaled logits.

use crate::{
    Family, llama_like,
    spec::{Pairs, Place, QkSpan},
};

pub static FAMILY: Family = Family {
    name: "cohere",
    hf: &["CohereForCausalLM"],
    gguf: &["command-r"],
    pairs: [Pairs::Adjacent, Pairs::Adjacent],
    build: |ck, family| {
        let mut spec = llama_like(ck, family)?.each(|_, l| l.place = Place::Parallel { shared_norm: true });
        spec.head.scale = ck.config.opt_f32("logit_scale")?.unwrap_or(0.0625);
        let normed = ck.config.flag("use_qk_norm")? || ck.tensors.contains_key("blk.0.attn_q_norm.weight");
        Ok(if normed { spec.with_qk_norm(QkSpan::EachHead) } else { spec })
    },
    ..Family::LLAMA_LIKE
};
