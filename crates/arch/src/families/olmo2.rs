//! OLMo 2: norms behind every part instead of before it, and one norm over all queries or keys.

use crate::{
    Family, Result, llama_like,
    names::Rule,
    spec::{ModelSpec, Place, QkSpan},
};
use lamina_store::Checkpoint;

pub static FAMILY: Family = Family {
    name: "olmo2",
    hf: &["Olmo2ForCausalLM"],
    gguf: &["olmo2"],
    build: olmo_like,
    rules: &[POST_NORMS],
    ..Family::LLAMA_LIKE
};

/// Names of the norms in Hugging Face checkpoints.
pub const POST_NORMS: &[Rule] = &[
    Rule::new("blk.{i}.post_attention_norm", "model.layers.{i}.post_attention_layernorm"),
    Rule::new("blk.{i}.post_ffw_norm", "model.layers.{i}.post_feedforward_layernorm"),
];

/// What OLMo 2 and 3 share.
pub fn olmo_like(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    Ok(llama_like(ck, family)?.each(|_, l| l.place = Place::Post).with_qk_norm(QkSpan::Full))
}
