//! Granite 4: Mamba-2 layers and a few of attention without positions, experts or one dense part.

use super::{granite::granite_like, granite_moe};
use crate::{
    Family, Result,
    mamba::{GGUF_MAMBA, MAMBA, beside_attention},
    names::Rule,
    spec::{Ffn, ModelSpec, Pairs},
};
use lamina_store::Checkpoint;

pub static FAMILY: Family = Family {
    name: "granite-hybrid",
    hf: &["GraniteMoeHybridForCausalLM"],
    gguf: &["granitehybrid"],
    pairs: [Pairs::Half, Pairs::Adjacent],
    build,
    rules: &[
        granite_moe::RULES,
        &Rule::halves("blk.{i}.ffn_gate", "blk.{i}.ffn_up", "model.layers.{i}.shared_mlp.input_linear"),
        &[Rule::new("blk.{i}.ffn_down", "model.layers.{i}.shared_mlp.output_linear")],
        MAMBA,
    ],
    gguf_rules: &[GGUF_MAMBA],
    ..Family::LLAMA_LIKE
};

fn build(ck: &Checkpoint, family: &Family) -> Result<ModelSpec> {
    let c = &ck.config;
    c.ignore(&["normalization_function"]);
    let dense = c.opt_usize("shared_expert_intermediate_size")?.filter(|&n| n > 0);
    let rotary = c.opt_str("position_embedding_type")? == Some("rope");
    let spec = granite_moe::with_experts(c, granite_like(ck, family)?)?.each(|_, l| {
        if let Ffn::Dense(d) = &mut l.ffn {
            d.inner = dense.unwrap_or(d.inner);
        }
    });
    beside_attention(c, spec.each_gqa(|_, g| g.rope = g.rope.take().filter(|_| rotary)))
}
