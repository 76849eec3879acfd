//! Gemma 1: norms stored as offsets from 1, a scaled embedding, GELU.

use crate::{
    ArchError, Family, Result, llama_like,
    names::{Edit, Rule},
    spec::{Act, Ffn, ModelSpec},
};
use lamina_store::{Checkpoint, Config};

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

/// A scaled embedding and GELU.
pub fn gelu_scaled(c: &Config, mut spec: ModelSpec) -> ModelSpec {
    // The first files said `gelu` and meant the tanh approximation, which is what the models were trained with.
    c.ignore(&["hidden_act"]);
    spec.embed.scale = (spec.hidden as f32).sqrt();
    spec.each(|_, l| {
        if let Ffn::Dense(d) = &mut l.ffn {
            d.act = Act::GeluTanh;
        }
    })
}
