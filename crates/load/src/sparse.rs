//! Sparse attention, as users ask for it.

use crate::{
    error::{Error, Result},
    heads::stored_types,
    options::LoadOptions,
};
use lamina_plan::{AttentionSparsity, Backend, KvType, Plan, Reach, ReadShare, sparsify};

/// The sparsity that these shares ask for.
///
/// # Errors
/// When one is not above 0 and below 1.
pub fn attention_sparsity(values: Option<f64>, prefill: Option<f64>) -> Result<AttentionSparsity> {
    let values = values.map(|share| read_share("attention_sparsity", share)).transpose()?;
    let prefill = prefill.map(|share| read_share("sparse_prefill", share)).transpose()?;
    Ok(AttentionSparsity { values, prefill })
}

fn read_share(name: &str, share: f64) -> Result<ReadShare> {
    let wrong = || Error::InvalidRequest(format!("{name} is {share}, but must be above 0 and below 1"));
    ReadShare::new(share).ok_or_else(wrong)
}

/// The plan with the attention that was asked for.
///
/// # Errors
/// When the model, or the type of its keys, cannot.
pub(crate) fn sparse_plan<B: Backend>(plan: Plan, options: &LoadOptions, backend: &B) -> Result<Plan> {
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

/// What a user should know of answers that are approximations.
pub(crate) fn sparsity_notes(sparsity: AttentionSparsity) -> impl Iterator<Item = String> {
    let percent = |share: ReadShare| (share.get() * 1000.0).round() / 10.0;
    let values = sparsity.values.map(|share| {
        format!("answers read {} % of the values only: they are approximations", percent(share))
    });
    let prefill = sparsity.prefill.map(|share| {
        format!("prompts attend to {} % of far blocks only: answers are approximations", percent(share))
    });
    values.into_iter().chain(prefill)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_checked_and_told() {
        for wrong in [0.0, 1.0, -0.1, f64::NAN, 50.0] {
            let error = attention_sparsity(Some(wrong), None).expect_err("is wrong").to_string();
            assert!(error.starts_with("attention_sparsity is ") && error.ends_with("below 1"), "{error}");
        }
        let asked = attention_sparsity(Some(0.125), None).expect("a share");
        let notes: Vec<_> = sparsity_notes(asked).collect();
        assert_eq!(notes, ["answers read 12.5 % of the values only: they are approximations"]);
    }
}
