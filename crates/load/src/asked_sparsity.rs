//! Sparse attention, as users ask for it and are told of it.

use crate::error::{Error, Result};
use lamina_plan::{AttentionSparsity, ReadShare};

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

/// Each share by the name of its option with its value; none where nothing is left out.
pub(crate) fn sparsity_names(sparsity: AttentionSparsity) -> impl Iterator<Item = String> {
    let named = [("attention_sparsity", sparsity.values), ("sparse_prefill", sparsity.prefill)];
    named.into_iter().filter_map(|(name, share)| share.map(|share| format!("{name} {}", share.get())))
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
        let names: Vec<_> = sparsity_names(asked).collect();
        assert_eq!(names, ["attention_sparsity 0.125"]);
    }
}
