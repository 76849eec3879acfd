//! Gemma 1: norms stored as offsets from 1, a scaled embedding, GELU.

use crate::{
    ArchError, Family, Result,
    gemma_like::gelu_scaled,
    llama_like,
    names::{Edit, Rule},
    spec::ModelSpec,
};
use lamina_store::Checkpoint;

pub static FAMILY: Family = Family {
    name: "gemma",
    hf: &["GemmaForCausalLM"],
    gguf: &["gemma"],
    defaults: &[("head_dim", 256.0)],
    build: gemma_like,
    // GGUF files hold the sums already.
    rules: &[&[
        Rule::new("output_norm", "model.norm").edit(Edit::PlusOne),
        Rule::new("blk.{i}.attn_norm", "model.layers.{i}.input_layernorm").edit(Edit::PlusOne),
        Rule::new("blk.{i}.ffn_norm", "model.layers.{i}.post_attention_layernorm").edit(Edit::PlusOne),
    ]],
    ..Family::LLAMA_LIKE
};

/// What all Gemmas share.
pub fn gemma_like(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    if ck.config.flag("use_bidirectional_attention")? {
        return Err(ArchError::value(
            "use_bidirectional_attention",
            "true",
            "false: this is no model that generates",
        ));
    }
    Ok(gelu_scaled(&ck.config, llama_like(ck, family)?))
}
