//! Qwen 3: a norm on each query and key head instead of biases.

use crate::{
    Family, llama_like,
    spec::{Mixer, ModelSpec, QkNorm, QkSpan},
};

pub static FAMILY: Family = Family {
    name: "qwen3",
    hf: &["Qwen3ForCausalLM", "Qwen3VLForConditionalGeneration"],
    gguf: &["qwen3", "qwen3vl"],
    ignored: &["visual."],
    build: |ck, family| Ok(with_qk_norm(llama_like(ck, family)?, QkSpan::Head)),
    ..Family::LLAMA_LIKE
};

/// A norm of queries and keys, of the kind of the layer's other norms, before the rotary embedding.
pub fn with_qk_norm(spec: ModelSpec, over: QkSpan) -> ModelSpec {
    spec.each(|_, l| {
        if let Mixer::Gqa(g) = &mut l.mixer {
            g.qk_norm = Some(QkNorm { norm: l.norm, over, after_rope: false });
        }
    })
}
