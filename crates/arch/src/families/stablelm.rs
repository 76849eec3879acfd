//! StableLM 1 and 2: layer norms, a rotary embedding on a quarter of each head; the 12B model runs its parts side by
//! side and norms each head by a weight of its own.

use crate::{
    Family, layer_norm, llama_like,
    names::Rule,
    spec::{Place, QkSpan},
};

pub static FAMILY: Family = Family {
    name: "stablelm",
    hf: &["StableLmForCausalLM", "StableLMEpochForCausalLM"],
    gguf: &["stablelm"],
    build: |ck, family| {
        let c = &ck.config;
        // Files of the 12B model have no second norm, whatever their keys say.
        let parallel = c.flag("use_parallel_residual")? && !ck.tensors.contains_key("blk.0.ffn_norm.weight");
        let normed = c.flag("qk_layernorm")? || ck.tensors.contains_key("blk.0.attn_q_norm.weight");
        let place = if parallel { Place::Parallel { shared_norm: true } } else { Place::Pre };
        let spec = llama_like(ck, family)?.with_norm(layer_norm(c)?).each(|_, l| l.place = place);
        Ok(if normed { spec.with_qk_norm(QkSpan::EachHead) } else { spec })
    },
    rules: &[&[
        Rule::new("blk.{i}.attn_q_norm", "model.layers.{i}.self_attn.q_layernorm.norms.{n}"),
        Rule::new("blk.{i}.attn_k_norm", "model.layers.{i}.self_attn.k_layernorm.norms.{n}"),
    ]],
    ..Family::LLAMA_LIKE
};
