//! Qwen1.5-MoE and Qwen2-57B-A14B: experts beside a shared one with a gate.

use crate::{
    Family, Result, llama_like, moe,
    spec::{Ffn, ModelSpec, Shared},
};
use lamina_store::Config;

pub static FAMILY: Family = Family {
    name: "qwen2-moe",
    hf: &["Qwen2MoeForCausalLM"],
    gguf: &["qwen2moe"],
    build: |ck, family| with_shared(&ck.config, sparse(&ck.config, llama_like(ck, family)?, false)?),
    ..Family::LLAMA_LIKE
};

/// Experts in every `decoder_sparse_step`-th layer that is not listed as dense.
pub fn sparse(c: &Config, spec: ModelSpec, renorm: bool) -> Result<ModelSpec> {
    let Some(mut moe) = moe(c)? else { return Ok(spec) };
    moe.renorm = c.opt_bool("norm_topk_prob")?.unwrap_or(renorm);
    let step = c.opt_usize("decoder_sparse_step")?.unwrap_or(1).max(1);
    let dense = c.opt_usize_list("mlp_only_layers")?.unwrap_or_default();
    Ok(spec.each(|i, l| {
        if !dense.contains(&i) && (i + 1).is_multiple_of(step) {
            l.ffn = Ffn::Moe(moe.clone());
        }
    }))
}

/// A gated shared expert beside the others.
pub fn with_shared(c: &Config, spec: ModelSpec) -> Result<ModelSpec> {
    let inner = c.usize("shared_expert_intermediate_size")?;
    Ok(spec.each(|_, l| {
        if let Ffn::Moe(m) = &mut l.ffn {
            m.shared = Some(Shared { inner, gated: true });
        }
    }))
}
