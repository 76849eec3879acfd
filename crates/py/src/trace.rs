//! Recordings as JSON, and what is made of them, for `lamina.Trace`.

use crate::{
    error::{Result, invalid},
    model::Model,
    options::request_options,
    prompt::PromptArg,
    wait::{detached, interruptible, silent},
};
use lamina::TraceDetail;
use lamina_see::{SeeError, Trace, TraceJob, chart, export, page, read};
use pyo3::{prelude::*, types::PyDict};

/// Runs prompts together, each with options, and records them; the recording as JSON.
#[pyfunction]
pub fn trace(
    py: Python<'_>,
    model: PyRef<'_, Model>,
    prompts: Vec<PromptArg>,
    options: Vec<Bound<'_, PyDict>>,
    detail: &str,
) -> Result<String> {
    let detail = detail_of(detail)?;
    let mut jobs = vec![];
    let mut lora = Default::default();
    for (prompt, options) in prompts.into_iter().zip(&options) {
        let request = request_options(options)?;
        lora = request.lora;
        jobs.push(TraceJob { prompt: prompt.0, options: request.generate });
    }
    let model = model.with(&lora)?;
    let recorded = interruptible(py, silent, |keep| {
        lamina_see::record(&model, &jobs, detail, &mut || keep(0, 0)).map_err(of_see)
    });
    Ok(recorded?.1.json())
}

/// Records what a model does from now on, or stops (no detail); what was recorded before, as JSON.
#[pyfunction]
#[pyo3(signature = (model, detail))]
pub fn record(py: Python<'_>, model: PyRef<'_, Model>, detail: Option<&str>) -> Result<Option<String>> {
    let detail = detail.map(detail_of).transpose()?;
    let model = model.get()?;
    detached(py, move || {
        let before = lamina_see::finish(&model).map(|trace| trace.json());
        if detail.is_some() {
            model.record(detail);
        }
        Ok(before)
    })
}

/// What is made of a recording: `page`, `chrome`, `summary`, `lines`, `figures`, or the figure of that name as SVG. With an
/// older recording, page, lines and figures show it beside this one.
#[pyfunction]
#[pyo3(signature = (json, form, against=None))]
pub fn trace_form(py: Python<'_>, json: &str, form: &str, against: Option<&str>) -> Result<String> {
    detached(py, || {
        let read = |json: &str| Trace::from_json(json.as_bytes()).map_err(of_see);
        let (trace, old) = (read(json)?, against.map(read).transpose()?);
        let figures = || match &old {
            Some(old) => chart::against(&trace, old),
            None => chart::figures(&trace),
        };
        let line = |f: &chart::Figure| format!("{}: {}", f.title, f.finding.replace('*', ""));
        Ok(match (form, &old) {
            ("page", Some(old)) => page::against_page(&trace, old),
            ("page", None) => page::trace_page(&trace),
            ("chrome", _) => export::chrome(&trace),
            ("summary", _) => read::summary(&trace).to_string(),
            ("lines", _) => figures().iter().map(line).collect::<Vec<_>>().join("\n"),
            ("figures", _) => figures().iter().map(|f| f.id).collect::<Vec<_>>().join(" "),
            (name, _) => chart::standalone(&chart::named(figures(), name).map_err(of_see)?.svg),
        })
    })
}

fn detail_of(text: &str) -> Result<TraceDetail> {
    text.parse().map_err(|e: String| invalid(format!("detail: {e}")))
}

fn of_see(e: SeeError) -> lamina::Error {
    match e {
        SeeError::Model(e) => e,
        e => lamina::Error::InvalidRequest(e.to_string()),
    }
}
