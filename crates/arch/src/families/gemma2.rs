//! Gemma 2: norms around every part, capped scores and logits, every other layer with a sliding window.

use super::gemma::gemma_like;
use crate::{
    Family, Result,
    llama_like::softcapped,
    names::{Edit, Rule},
    spec::{ModelSpec, Place},
};
use lamina_store::Checkpoint;

pub static FAMILY: Family = Family {
    name: "gemma2",
    hf: &["Gemma2ForCausalLM"],
    gguf: &["gemma2"],
    full_every: Some(2),
    defaults: &[("head_dim", 256.0)],
    // The 27B model has 46 layers.
    build: |ck, family| gemma_sandwich(ck, family, 46),
    rules: &[SANDWICH],
    ..Family::LLAMA_LIKE
};

/// Names of Gemma 2 and 3 in Hugging Face checkpoints.
pub const SANDWICH: &[Rule] = &[
    Rule::new("output_norm", "model.norm").edit(Edit::PlusOne),
    Rule::new("blk.{i}.attn_norm", "model.layers.{i}.input_layernorm").edit(Edit::PlusOne),
    Rule::new("blk.{i}.attn_q_norm", "model.layers.{i}.self_attn.q_norm").edit(Edit::PlusOne),
    Rule::new("blk.{i}.attn_k_norm", "model.layers.{i}.self_attn.k_norm").edit(Edit::PlusOne),
    Rule::new("blk.{i}.post_attention_norm", "model.layers.{i}.post_attention_layernorm").edit(Edit::PlusOne),
    Rule::new("blk.{i}.ffn_norm", "model.layers.{i}.pre_feedforward_layernorm").edit(Edit::PlusOne),
    Rule::new("blk.{i}.post_ffw_norm", "model.layers.{i}.post_feedforward_layernorm").edit(Edit::PlusOne),
];

/// What Gemma 2 and 3 share. Scores of the largest model, which has `largest` layers, are scaled by the width per
/// head instead of the head's width; GGUF files do not say so.
pub fn gemma_sandwich(ck: &Checkpoint, family: &Family, largest: usize) -> Result<ModelSpec> {
    let spec = softcapped(&ck.config, gemma_like(ck, family)?)?.each(|_, l| l.place = Place::Sandwich);
    let scalar = ck.config.opt_f32("query_pre_attn_scalar")?;
    let (hidden, is_largest) = (spec.hidden, spec.layers.len() == largest);
    Ok(spec.each_gqa(|_, g| {
        let width = if is_largest { hidden / g.heads } else { g.dim };
        g.scale = scalar.unwrap_or(width as f32).powf(-0.5);
    }))
}
