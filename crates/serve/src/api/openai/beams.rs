//! Beam search by vLLM's fields.

use crate::{
    body::{Body, FieldSpec, taken},
    error::ApiError,
    run::Wishes,
};
use lamina::{BeamOptions, EarlyStopping};
use serde_json::Value;

/// Fields of requests for answers that come whole.
pub const BEAMS: &[FieldSpec] = &[
    taken(
        "use_beam_search",
        "true: the likeliest answers are searched for; not in a stream, and without logprobs",
    ),
    taken("best_of", "beams of a search, as many as answers at least"),
    taken("length_penalty", "of a search: above 0 it favors long answers, below 0 short ones"),
    taken("early_stopping", "of a search: false, true or never"),
];

/// Reads the fields of a search, whose beams are `best_of`, or as many as answers; nothing where none is asked for, which
/// leaves the others without effect.
pub fn search(
    body: &mut Body,
    wishes: &mut Wishes,
    best_of: Option<usize>,
    stream: bool,
) -> Result<(), ApiError> {
    let asked = body.take("use_beam_search")?.unwrap_or(false);
    let length_penalty = body.take("length_penalty")?;
    let early = body.value("early_stopping").map(early_stopping).transpose()?;
    if !asked {
        let given = [("length_penalty", length_penalty.is_some()), ("early_stopping", early.is_some())];
        given.into_iter().filter(|(_, given)| *given).for_each(|(name, _)| body.ignore(name));
        return Ok(());
    }
    let refused = |why| Err(ApiError::at("use_beam_search", format!("use_beam_search {why}")));
    if stream {
        return refused("finds whole answers: leave stream out");
    }
    if wishes.generate.sampling.logprobs.count.is_some() || wishes.generate.echo {
        return refused("tells no logprobs and no echo: leave them out");
    }
    let (n, usual) = (wishes.generate.n, BeamOptions::default());
    let width = best_of.unwrap_or(n);
    if width < n {
        return Err(ApiError::at("best_of", format!("best_of is {width}, but must be at least {n}")));
    }
    wishes.generate.beams = Some(BeamOptions {
        width,
        length_penalty: length_penalty.unwrap_or(usual.length_penalty),
        early_stopping: early.unwrap_or(usual.early_stopping),
    });
    Ok(())
}

fn early_stopping(value: Value) -> Result<EarlyStopping, ApiError> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let wrong = |e: lamina::EngineError| ApiError::at("early_stopping", e.to_string());
    text.parse().map_err(wrong)
}
