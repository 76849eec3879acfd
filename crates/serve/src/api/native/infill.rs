//! POST /infill: text between two others.

use super::completion::{ANSWER, Asked, answer};
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
    ],
    also: &[ANSWER],
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
    call.finish(body);
    let tokens = call.infill(&lease, GapText { before: before + &begun, behind, files }).await?;
    answer(&call, lease, vec![tokens.into()], asked).await
}
