//! Granite 3: Llama with factors on the embedding, the scores, the residuals and the logits.

use crate::{
    Family, Result, llama_like,
    spec::{ModelSpec, Pairs},
};
use lamina_store::Checkpoint;

pub static FAMILY: Family = Family {
    name: "granite",
    hf: &["GraniteForCausalLM"],
    gguf: &["granite"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    build: granite_like,
    ..Family::LLAMA_LIKE
};

/// Llama with Granite's factors. Scores are scaled by the configuration alone, not by the head's width.
pub fn granite_like(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    let factor = |key: &str| -> Result<f32> { Ok(ck.config.opt_f32(key)?.unwrap_or(1.0)) };
    let (residual, scale) = (factor("residual_multiplier")?, ck.config.opt_f32("attention_multiplier")?);
    // A GGUF file without the key means the usual scale, a configuration without it means none.
    let gguf = ck.kind == lamina_store::Kind::Gguf;
    let spec = llama_like(ck, family)?.each(|_, l| l.residual = residual);
    let mut spec = spec.each_gqa(|_, g| g.scale = scale.unwrap_or(if gguf { g.scale } else { 1.0 }));
    spec.embed.scale = factor("embedding_multiplier")?;
    spec.head.scale = 1.0 / factor("logits_scaling")?;
    Ok(spec)
}
