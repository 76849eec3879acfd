//! What a model would take, for `lamina.plan`.

use crate::{
    error::Result,
    options::{LoadTexts, load_options},
    wait::{CallWatch, interruptible, located, silent},
};
use lamina::ForecastQuestion;
use lamina_tools::{plan_json, plan_report};
use pyo3::prelude::*;
use std::path::PathBuf;

/// The forecast as JSON, and as the command line tells it.
#[pyfunction]
#[pyo3(signature = (path, options, loras, *, batch, prompt, gen_tokens, measure, image))]
#[allow(clippy::too_many_arguments)]
pub fn plan(
    py: Python<'_>,
    path: PathBuf,
    options: LoadTexts,
    loras: Vec<(String, PathBuf)>,
    batch: Vec<usize>,
    prompt: Vec<usize>,
    gen_tokens: usize,
    measure: bool,
    image: Option<(u32, u32)>,
) -> Result<(String, String)> {
    let options = load_options(options, loras)?;
    let question =
        ForecastQuestion { batch, prompt, gen_tokens, measure, image, ..ForecastQuestion::default() };
    let told = interruptible(py, silent, |keep| {
        let (path, options) = located(&path, &options, &CallWatch(keep))?;
        lamina::plan(Some(&path), &options, &question)
    })?;
    Ok((plan_json(&told).to_string(), plan_report(&told)))
}
