//! POST /infill: text between two others.

use super::completion::{Asked, answer};
use crate::{
    body::{FieldTable, taken},
    call::{GapText, HttpCall, OtherFile},
    error::ApiError,
};
use axum::response::Response;

/// Fields of the body, beside those of completions.
pub const INFILL: FieldTable = FieldTable {
    name: "POST /infill",
    sampling: true,
    fields: &[
        taken("input_prefix", "text before the gap"),
        taken("input_suffix", "text behind the gap"),
        taken("input_extra", "other files: [{filename, text}]"),
        taken("prompt", "text behind the prefix, where the answer begins"),
        taken("model", "name of the model or of an adapter"),
        taken("n_predict", "tokens at most"),
        taken("max_tokens", "the same"),
        taken("stream", "the answer comes as it grows"),
        taken("return_tokens", "tokens of the answer"),
        taken("timings_per_token", "timings in every piece"),
        taken("response_fields", "paths of the fields that the answer has"),
        taken("t_max_predict_ms", "time after which the answer is cut"),
        taken("samplers", "names; those that are not listed are off"),
        taken("n_indent", "0: lines are not indented"),
        taken("return_progress", "a stream tells how much of the prompt is computed"),
    ],
};

/// The handler.
pub async fn infill(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&INFILL).await?;
    let lease = call.model(&mut body).await?;
    let [before, behind, begun] =
        ["input_prefix", "input_suffix", "prompt"].map(|name| body.take::<String>(name));
    let (before, behind, begun) =
        (before?.unwrap_or_default(), behind?.unwrap_or_default(), begun?.unwrap_or_default());
    let files: Vec<OtherFile> = body.take("input_extra")?.unwrap_or_default();
    let asked = Asked::read(&call, &mut body, &lease)?;
    call.ignore(&body);
    let tokens = call.infill(&lease, GapText { before: before + &begun, behind, files }).await?;
    answer(&call, lease, vec![tokens], asked).await
}
