//! `_lamina.Grammar`: a grammar without a model.

use crate::error::{Failure, Result};
use lamina::{GrammarError, grammar::SchemaOptions};
use pyo3::prelude::*;
use serde_json::Value;

/// What a text must look like.
#[pyclass(frozen, name = "Grammar", module = "lamina._lamina")]
pub struct PyGrammar(lamina::Grammar);

/// What the user can do about an error decides its class.
fn failure(error: GrammarError) -> Failure {
    let text = error.to_string();
    Failure::Lamina(match error {
        GrammarError::Refused { .. } => lamina::Error::Unsupported(text),
        GrammarError::Failed { .. } => lamina::Error::Runtime(text),
        _ => lamina::Error::InvalidRequest(text),
    })
}

/// Compiling takes milliseconds, sometimes a second: other threads of Python may run.
fn made(
    py: Python<'_>,
    make: impl FnOnce() -> std::result::Result<lamina::Grammar, GrammarError> + Send,
) -> Result<PyGrammar> {
    py.detach(make).map(PyGrammar).map_err(failure)
}

fn parsed(what: &'static str, text: &str) -> Result<Value> {
    let broken = |e| crate::error::invalid(format!("{what} is not JSON: {e}"));
    serde_json::from_str(text).map_err(broken)
}

#[pymethods]
impl PyGrammar {
    #[staticmethod]
    fn json(py: Python<'_>) -> Result<Self> {
        made(py, lamina::Grammar::json)
    }

    #[staticmethod]
    fn json_schema(py: Python<'_>, schema: &str, lenient: bool, compact: bool) -> Result<Self> {
        let schema = parsed("the schema", schema)?;
        made(py, || lamina::Grammar::json_schema(&schema, SchemaOptions { lenient, compact }))
    }

    #[staticmethod]
    fn regex(py: Python<'_>, pattern: &str) -> Result<Self> {
        made(py, || lamina::Grammar::regex(pattern))
    }

    #[staticmethod]
    fn choice(py: Python<'_>, choices: Vec<String>) -> Result<Self> {
        made(py, || lamina::Grammar::choice(&choices))
    }

    #[staticmethod]
    fn gbnf(py: Python<'_>, text: &str) -> Result<Self> {
        made(py, || lamina::Grammar::gbnf(text))
    }

    #[staticmethod]
    fn lark(py: Python<'_>, text: &str) -> Result<Self> {
        made(py, || lamina::Grammar::lark(text))
    }

    #[staticmethod]
    fn structural_tag(py: Python<'_>, tag: &str) -> Result<Self> {
        let tag = parsed("the structural tag", tag)?;
        made(py, || lamina::Grammar::structural_tag(&tag))
    }

    fn matches(&self, py: Python<'_>, text: &[u8]) -> bool {
        py.detach(|| self.0.matches(text))
    }

    fn allows(&self, py: Python<'_>, prefix: &[u8]) -> bool {
        py.detach(|| self.0.allows(prefix))
    }

    fn warnings(&self) -> Vec<String> {
        self.0.warnings().to_vec()
    }
}
