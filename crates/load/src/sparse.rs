//! Plans with sparse attention.

use crate::{
    error::{Error, Result},
    heads::stored_types,
    options::LoadOptions,
};
use lamina_plan::{Backend, KvType, Plan, Reach, sparsify};

/// The plan with the attention that was asked for.
///
/// # Errors
/// When the model, or the type of its keys, cannot.
pub(crate) fn sparse_plan(plan: Plan, options: &LoadOptions, backend: &dyn Backend) -> Result<Plan> {
    let refuse = |what: &str| {
        Error::InvalidRequest(format!("attention_sparsity and sparse_prefill must be left out for {what}"))
    };
    let plan = sparsify(plan, options.sparsity).map_err(refuse)?;
    let types = stored_types(backend, &plan, options.kv_dtype);
    let coarse = |(group, types): (_, &lamina_plan::KvTypes)| {
        let all = plan.kv.groups.get::<usize>(group).is_some_and(|g| g.reach == Reach::All);
        all && matches!(types.k, KvType::Q4_0 | KvType::Q4_1)
    };
    match options.sparsity.prefill.is_some() && types.iter().enumerate().any(coarse) {
        true => Err(refuse(
            "keys of q4_0 and q4_1, which nothing averages; kv_dtype k=q8_0 is the smallest that is",
        )),
        false => Ok(plan),
    }
}
