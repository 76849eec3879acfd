//! `_lamina.beam`: the likeliest answers to a prompt.

use crate::{
    error::Result,
    model::Model,
    options::{RequestOptions, request_options},
    prompt::PromptArg,
    wait::{interruptible, silent},
};
use lamina::{Beam, BeamOptions};
use pyo3::{prelude::*, types::PyDict};

/// Text, tokens, score, sum of the logprobs, and why it ended.
type BeamRow = (String, Vec<u32>, f64, f64, &'static str);

/// Searches. Python has checked the types.
#[pyfunction]
pub fn beam(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    prompt: PromptArg,
    options: &Bound<'_, PyDict>,
    width: usize,
    length_penalty: f32,
    early_stopping: &str,
) -> Result<Vec<BeamRow>> {
    let RequestOptions { generate, lora, .. } = request_options(options)?;
    let early_stopping = early_stopping.parse().map_err(lamina::Error::from)?;
    let (model, beams) = (model.get().with(&lora)?, BeamOptions { width, length_penalty, early_stopping });
    let found =
        interruptible(py, silent, |keep| model.beam(&prompt.0, &generate, &beams, &mut || keep(0, 0)))?;
    let row = |b: Beam| (b.text, b.tokens, b.score, b.cumulative_logprob, b.reason.name());
    Ok(found.into_iter().map(row).collect())
}
