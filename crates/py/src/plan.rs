//! What a model would take, for `lamina.plan`.

use crate::{
    error::{Result, invalid},
    options::{LoadTexts, load_options},
    wait::{CallWatch, interruptible, located, silent},
};
use lamina::{BadValue, ForecastQuestion, LinkChoice};
use lamina_tools::{plan_json, plan_report};
use pyo3::prelude::*;
use std::path::PathBuf;

/// The forecast as JSON, and as the command line tells it.
#[pyfunction]
#[pyo3(signature = (path, options, loras, *, batch, prompt, gen_tokens, measure, image, audio, machines, link))]
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
    audio: Option<f64>,
    machines: Vec<usize>,
    link: &str,
) -> Result<(String, String)> {
    let options = load_options(options, loras)?;
    let link: LinkChoice = link.parse().map_err(|e: BadValue| invalid(format!("link {e}")))?;
    let question = ForecastQuestion {
        batch,
        prompt,
        gen_tokens,
        measure,
        image,
        audio,
        machines,
        ..ForecastQuestion::default()
    };
    let told = interruptible(py, silent, |keep| {
        let (path, options) = located(&path, &options, &CallWatch(keep))?;
        // Without machines nothing lies between them.
        let link = if question.machines.is_empty() { question.link } else { link.link()? };
        let question = ForecastQuestion { link, ..question };
        lamina::plan(Some(&path), &options, &question)
    })?;
    Ok((plan_json(&told).to_string(), plan_report(&told)))
}
