//! MiniCPM 1 and 2: Llama with factors on the embedding, the residuals and the logits.

use crate::{
    Family, Result, llama_like,
    spec::{ModelSpec, Pairs},
};
use lamina_store::Config;

pub static FAMILY: Family = Family {
    name: "minicpm",
    hf: &["MiniCPMForCausalLM"],
    gguf: &["minicpm"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    build: |ck, family| scaled(&ck.config, llama_like(ck, family)?),
    ..Family::LLAMA_LIKE
};

/// MiniCPM's factors. Configurations hold what they follow from, GGUF files the factors; old ones hold neither.
pub fn scaled(c: &Config, spec: ModelSpec) -> Result<ModelSpec> {
    let number = |key: &str, default: f32| -> Result<f32> { Ok(c.opt_f32(key)?.unwrap_or(default)) };
    let depth = number("scale_depth", 1.4)? / (spec.layers.len() as f32).sqrt();
    let residual = number("residual_multiplier", depth)?;
    let width = spec.hidden as f32 / number("dim_model_base", 256.0)?;
    let mut spec = spec.each(|_, l| l.residual = residual);
    spec.embed.scale = number("embedding_multiplier", number("scale_emb", 12.0)?)?;
    spec.head.scale = 1.0 / number("logits_scaling", width)?;
    Ok(spec)
}
