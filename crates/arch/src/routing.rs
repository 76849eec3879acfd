//! Which layers have experts, how those are chosen, and what stands beside them, from a configuration.

use crate::{
    error::Result,
    llama_like::moe,
    names::{Rule, gated},
    spec::*,
};
use lamina_store::Config;

/// Experts in every layer, if the configuration has any.
///
/// # Errors
/// A missing or unsupported value.
pub fn with_experts(c: &Config, spec: ModelSpec) -> Result<ModelSpec> {
    let Some(moe) = moe(c)? else { return Ok(spec) };
    Ok(spec.each(|_, l| l.ffn = Ffn::Moe(moe.clone())))
}

/// Experts in every `decoder_sparse_step`-th layer that is not listed as dense; `renorm` is used where the
/// configuration does not say whether chosen weights are divided by their sum.
///
/// # Errors
/// A missing or unsupported value.
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
///
/// # Errors
/// A missing value.
pub fn with_gated_shared(c: &Config, spec: ModelSpec) -> Result<ModelSpec> {
    let inner = c.usize("shared_expert_intermediate_size")?;
    Ok(spec.each_moe(|m| m.shared = Some(Shared { inner, gated: true })))
}

/// A shared expert beside the others, if the configuration gives it a width.
///
/// # Errors
/// When the width is no number.
pub fn with_shared(c: &Config, spec: ModelSpec) -> Result<ModelSpec> {
    let inner = c.opt_usize("shared_expert_intermediate_size")?.filter(|&n| n > 0);
    let shared = inner.map(|inner| Shared { inner, gated: false });
    Ok(spec.each_moe(|m| m.shared = shared))
}

/// The experts of `moe` in every `interleave_moe_layer_step`-th layer, or in those that are listed; the others have
/// `intermediate_size_mlp`.
///
/// # Errors
/// A value of another type.
pub fn interleaved(c: &Config, spec: ModelSpec, moe: &Moe) -> Result<ModelSpec> {
    let dense = c.opt_usize("intermediate_size_mlp")?;
    let every = c.opt_usize("interleave_moe_layer_step")?.unwrap_or(1);
    let listed = c.opt_usize_list("moe_layers")?;
    Ok(spec.each(|i, l| match (&listed, &mut l.ffn) {
        (Some(list), _) if list.contains(&i) => l.ffn = Ffn::Moe(moe.clone()),
        (None, _) if every > 0 && (i + 1).is_multiple_of(every) => l.ffn = Ffn::Moe(moe.clone()),
        (_, Ffn::Dense(d)) => d.inner = dense.unwrap_or(d.inner),
        _ => {}
    }))
}

/// Experts in all layers after the first `first_k_dense_replace`, with shared ones beside them. `score` is used where
/// the configuration names no router function.
///
/// # Errors
/// A missing or unsupported value.
pub fn late_experts(c: &Config, spec: ModelSpec, score: RouterScore) -> Result<ModelSpec> {
    let Some(mut moe) = moe(c)? else { return Ok(spec) };
    let dense = c.opt_usize("first_k_dense_replace")?.unwrap_or(0);
    let every = c.opt_usize("moe_layer_freq")?.unwrap_or(1).max(1);
    moe.score = match c.opt_str("scoring_func")? {
        Some("sigmoid") => RouterScore::Sigmoid,
        Some("softmax") => RouterScore::Softmax,
        _ => score,
    };
    moe.renorm = c.opt_bool("norm_topk_prob")?.unwrap_or(moe.score == RouterScore::Sigmoid);
    moe.scale = c.opt_f32("routed_scaling_factor")?.unwrap_or(1.0);
    moe.groups = groups(c, moe.score)?;
    let shared = c.opt_usize("n_shared_experts")?.unwrap_or(0).saturating_mul(moe.inner);
    moe.shared = (shared > 0).then_some(Shared { inner: shared, gated: false });
    Ok(spec.each(|i, l| {
        if i >= dense && i.is_multiple_of(every) {
            l.ffn = Ffn::Moe(moe.clone());
        }
    }))
}

fn groups(c: &Config, score: RouterScore) -> Result<Option<ExpertGroups>> {
    let greedy = c.opt_str("topk_method")? == Some("greedy");
    let (count, keep) = (c.opt_usize("n_group")?.unwrap_or(1), c.opt_usize("topk_group")?.unwrap_or(1));
    let by = if score == RouterScore::Sigmoid { GroupScore::BestTwo } else { GroupScore::Best };
    Ok((!greedy && keep < count).then_some(ExpertGroups { count, keep, by }))
}

/// Names of shared experts where there may be several of them.
pub const SHARED_EXPERTS: &[Rule] = &gated!("_shexp", "model.layers.{i}.mlp.shared_experts");
