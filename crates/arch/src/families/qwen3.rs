//! Qwen 3: a norm on each query and key head instead of biases.

use crate::{
    Family, Result, llama_like,
    spec::{ModelSpec, QkNorm, QkSpan},
};

pub static FAMILY: Family = Family {
    name: "qwen3",
    hf: &["Qwen3ForCausalLM"],
    gguf: &["qwen3"],
    build: |ck, family| with_head_norm(llama_like(ck, family)?),
    ..Family::LLAMA_LIKE
};

/// A norm over each query and key head.
pub fn with_head_norm(spec: ModelSpec) -> Result<ModelSpec> {
    spec.each(|_, l| {
        let norm = l.norm;
        if let crate::spec::Mixer::Gqa(g) = &mut l.mixer {
            g.qk_norm = Some(QkNorm { norm, over: QkSpan::Head, after_rope: false });
        }
        Ok(())
    })
}
