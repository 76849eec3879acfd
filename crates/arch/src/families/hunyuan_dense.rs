//! Hunyuan (dense): a norm of each head behind the rotary embedding.

use crate::{
    Family, llama_like,
    names::Rule,
    spec::{Mixer, QkNorm, QkSpan},
};

pub static FAMILY: Family = Family {
    name: "hunyuan",
    hf: &["HunYuanDenseV1ForCausalLM"],
    gguf: &["hunyuan-dense"],
    build: |ck, family| {
        Ok(llama_like(ck, family)?.each(|_, l| {
            if let Mixer::Gqa(g) = &mut l.mixer {
                g.qk_norm = Some(QkNorm { norm: l.norm, over: QkSpan::Head, after_rope: true });
            }
        }))
    },
    rules: &[&[
        Rule::new("blk.{i}.attn_q_norm", "model.layers.{i}.self_attn.query_layernorm"),
        Rule::new("blk.{i}.attn_k_norm", "model.layers.{i}.self_attn.key_layernorm"),
    ]],
    ..Family::LLAMA_LIKE
};
