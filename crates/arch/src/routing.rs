//! Experts as DeepSeek and its followers configure them.

use crate::{error::Result, llama_like::moe, spec::*};
use lamina_store::Config;

/// Experts in all layers after the first `first_k_dense_replace`, with shared ones beside them. `score` is used where
/// the configuration names no router function.
///
/// # Errors
/// A missing or unsupported value.
pub fn late_experts(c: &Config, spec: ModelSpec, score: Score) -> Result<ModelSpec> {
    let Some(mut moe) = moe(c)? else { return Ok(spec) };
    let dense = c.opt_usize("first_k_dense_replace")?.unwrap_or(0);
    let every = c.opt_usize("moe_layer_freq")?.unwrap_or(1).max(1);
    moe.score = match c.opt_str("scoring_func")? {
        Some("sigmoid") => Score::Sigmoid,
        Some("softmax") => Score::Softmax,
        _ => score,
    };
    moe.renorm = c.opt_bool("norm_topk_prob")?.unwrap_or(moe.score == Score::Sigmoid);
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

fn groups(c: &Config, score: Score) -> Result<Option<Groups>> {
    let greedy = c.opt_str("topk_method")? == Some("greedy");
    let (count, keep) = (c.opt_usize("n_group")?.unwrap_or(1), c.opt_usize("topk_group")?.unwrap_or(1));
    let by = if score == Score::Sigmoid { GroupScore::BestTwo } else { GroupScore::Best };
    Ok((!greedy && keep < count).then_some(Groups { count, keep, by }))
}
