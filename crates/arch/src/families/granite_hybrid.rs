//! Granite 4: Mamba-2 layers and a few of attention without positions, experts or one dense part.

use super::{granite::granite_like, granite_moe};
use crate::{
    ArchError, Family, Result,
    mamba::{GGUF_MAMBA, MAMBA, mamba},
    names::Rule,
    spec::{Ffn, Mixer, ModelSpec, Pairs},
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
    let expand = c.opt_usize("mamba_expand")?.unwrap_or(2);
    let heads = c.opt_usize("mamba_n_heads")?.map_or_else(|| c.usize("time_step_rank"), Ok)?;
    let spec = granite_moe::with_experts(c, granite_like(ck, family)?)?;
    let inner = c.opt_usize("ssm_inner_size")?.unwrap_or(expand.saturating_mul(spec.hidden));
    let mamba = mamba(c, heads, inner, 1, crate::norm(c)?)?;
    spec.try_each(|i, l| {
        if let Ffn::Dense(d) = &mut l.ffn {
            d.inner = dense.unwrap_or(d.inner);
        }
        // GGUF files give layers without attention no key heads.
        let scans = matches!(c.opt_str_at("layer_types", i)?, Some("mamba" | "linear_attention"));
        match &mut l.mixer {
            Mixer::Gqa(g) if !scans && g.kv_heads > 0 => g.rope = g.rope.take().filter(|_| rotary),
            mixer => *mixer = Mixer::Mamba2(mamba.clone()),
        }
        Ok::<_, ArchError>(())
    })
}
