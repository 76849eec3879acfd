//! `_lamina.Grammar`: a grammar without a model; `_lamina.Matcher`: beside an answer.

use crate::error::{Failure, Result};
use lamina::{
    GrammarError,
    grammar::{GrammarMatcher, SchemaOptions},
};
use numpy::PyArray1;
use pyo3::prelude::*;
use serde_json::Value;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a text must look like.
#[pyclass(frozen, name = "Grammar", module = "lamina._lamina")]
pub struct PyGrammar(lamina::Grammar);

impl PyGrammar {
    pub fn inner(&self) -> &lamina::Grammar {
        &self.0
    }
}

fn failure(error: GrammarError) -> Failure {
    lamina::EngineError::from(error).into()
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

/// A grammar beside one answer; threads that share it take turns.
#[pyclass(frozen, name = "Matcher", module = "lamina._lamina")]
pub struct PyMatcher(Mutex<GrammarMatcher>);

impl PyMatcher {
    pub fn new(matcher: GrammarMatcher) -> PyMatcher {
        PyMatcher(Mutex::new(matcher))
    }

    fn lock(&self) -> MutexGuard<'_, GrammarMatcher> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PyMatcher {
    fn mask<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyArray1<u32>>> {
        let words = py.detach(|| {
            let mut matcher = self.lock();
            let mut words = vec![0; matcher.vocabulary().mask_words()];
            matcher.mask(&mut words).map(|()| words)
        });
        Ok(PyArray1::from_vec(py, words.map_err(failure)?))
    }

    fn allows(&self, py: Python<'_>, token: u32) -> bool {
        py.detach(|| self.lock().allows(token))
    }

    fn accept(&self, py: Python<'_>, token: u32) -> Result<()> {
        py.detach(|| self.lock().accept(token)).map_err(failure)
    }

    fn forced(&self, py: Python<'_>) -> Vec<u32> {
        py.detach(|| self.lock().forced())
    }

    fn legal(&self, py: Python<'_>, tokens: Vec<u32>) -> usize {
        py.detach(|| self.lock().legal(&tokens))
    }

    fn rollback(&self, py: Python<'_>, count: usize) -> Result<()> {
        py.detach(|| self.lock().rollback(count)).map_err(failure)
    }

    fn finished(&self) -> bool {
        self.lock().stopped().is_some()
    }

    fn accepting(&self, py: Python<'_>) -> bool {
        py.detach(|| self.lock().is_accepting())
    }

    fn fork(&self, py: Python<'_>) -> PyMatcher {
        PyMatcher::new(py.detach(|| self.lock().fork()))
    }
}
