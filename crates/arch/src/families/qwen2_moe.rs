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
    build: |ck, family| {
        let c = &ck.config;
        let spec = sparse(c, llama_like(ck, family)?, false)?;
        let inner = c.usize("shared_expert_intermediate_size")?;
        spec.each(|_, l| {
            if let Ffn::Moe(m) = &mut l.ffn {
                m.shared = Some(Shared { inner, gated: true });
            }
            Ok(())
        })
    },
    ..Family::LLAMA_LIKE
};

/// Experts in every `decoder_sparse_step`-th layer that is not listed as dense.
pub fn sparse(c: &Config, spec: ModelSpec, renorm: bool) -> Result<ModelSpec> {
    let Some(mut moe) = moe(c)? else { return Ok(spec) };
    moe.renorm = c.opt_bool("norm_topk_prob")?.unwrap_or(renorm);
    let step = c.opt_usize("decoder_sparse_step")?.unwrap_or(1).max(1);
    let dense = c.opt_usize_list("mlp_only_layers")?.unwrap_or_default();
    spec.each(|i, l| {
        if !dense.contains(&i) && (i + 1) % step == 0 {
            l.ffn = Ffn::Moe(moe.clone());
        }
        Ok(())
    })
}
