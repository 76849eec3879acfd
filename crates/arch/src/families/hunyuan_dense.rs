//! Hunyuan (dense): a norm of each head behind the rotary embedding.

use crate::{
    Family, Result, llama_like,
    names::Rule,
    spec::{Mixer, ModelSpec, QkNorm, QkSpan},
};
use lamina_store::Checkpoint;

pub static FAMILY: Family = Family {
    name: "hunyuan",
    hf: &["HunYuanDenseV1ForCausalLM"],
    gguf: &["hunyuan-dense"],
    build: hunyuan_like,
    rules: &[NORMS],
    ..Family::LLAMA_LIKE
};

/// Llama with these norms.
pub fn hunyuan_like(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    Ok(llama_like(ck, family)?.each(|_, l| {
        if let Mixer::Gqa(g) = &mut l.mixer {
            g.qk_norm = Some(QkNorm { norm: l.norm, over: QkSpan::Head, after_rope: true });
        }
    }))
}

/// Names of the norms.
pub const NORMS: &[Rule] = &[
    Rule::new("blk.{i}.attn_q_norm", "model.layers.{i}.self_attn.query_layernorm"),
    Rule::new("blk.{i}.attn_k_norm", "model.layers.{i}.self_attn.key_layernorm"),
];
