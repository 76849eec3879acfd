//! What guesses ahead beside a model, for its forecast: where it lies, and what a guess costs.

use super::in_company;
use crate::{
    company::{Company, DraftFiles, draft_backend, draft_options},
    error::Result,
    options::LoadOptions,
};
use lamina_plan::Backend;
use lamina_planner::{DraftCost, ForecastQuestion, SpeedTable};
use lamina_store::Checkpoint;

/// Draft heads, by what a guess reads.
pub(super) struct HeadCost {
    pub name: &'static str,
    /// Bytes of weights of all of them.
    pub bytes: u64,
}

/// Bytes that the draft model in `ck` takes, as loading finds them; why it does not fit where it does not.
pub(super) fn draft_bytes(
    ck: &Checkpoint,
    options: &LoadOptions,
    backend: &dyn Backend,
) -> Result<Result<u64, String>> {
    let company = Company { longest: Some(options.context.unwrap_or(usize::MAX)), ..Company::default() };
    let (own, options) = (draft_backend(backend)?, draft_options(options, backend));
    in_company(ck, &options, &*own, company, |model, _| Ok(model.bytes()?))
}

/// What a guess costs; none where nothing computes guesses.
pub(super) fn guess_cost(
    files: &DraftFiles<'_>,
    options: &LoadOptions,
    backend: &dyn Backend,
    (head, speeds): (Option<HeadCost>, &mut SpeedTable),
) -> Result<Option<DraftCost>> {
    if let Some(head) = head {
        // One row at a time is as fast as weights are read.
        let ram = speeds.speeds(backend, &[])?.hardware.ram;
        return Ok(Some(DraftCost { name: head.name.into(), seconds: head.bytes as f64 / ram }));
    }
    let Some((ck, _)) = files.model() else { return Ok(None) };
    let name = options.draft.as_ref().map(ToString::to_string).unwrap_or_default();
    let company = Company { longest: Some(options.context.unwrap_or(usize::MAX)), ..Company::default() };
    let (own, options) = (draft_backend(backend)?, draft_options(options, backend));
    let question = ForecastQuestion { batch: vec![1], ..ForecastQuestion::default() };
    let told =
        in_company(ck, &options, &*own, company, |model, _| Ok(model.forecast(&question, speeds, None)?))?;
    let tok_s = told.ok().and_then(|told| told.decode.first().map(|s| s.tok_s));
    Ok(tok_s.map(|tok_s| DraftCost { name, seconds: 1.0 / tok_s }))
}
