//! `_lamina.Grammar`: a grammar without a model; `_lamina.Matcher`: beside an answer.

use crate::{error::Result, wait::detached};
use lamina::{
    GrammarError,
    grammar::{GrammarMatcher, GrammarVerdict, SchemaOptions},
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

/// Runs `f` while other threads of Python may run: compiling takes milliseconds, sometimes a second. Panics become
/// errors.
fn freely<T: Send>(
    py: Python<'_>,
    f: impl FnOnce() -> std::result::Result<T, GrammarError> + Send,
) -> Result<T> {
    detached(py, || f().map_err(|e| lamina::EngineError::from(e).into()))
}

fn made(
    py: Python<'_>,
    make: impl FnOnce() -> std::result::Result<lamina::Grammar, GrammarError> + Send,
) -> Result<PyGrammar> {
    let checked = || {
        let grammar = make()?;
        grammar.check().map(|()| grammar)
    };
    freely(py, checked).map(PyGrammar)
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
    fn json_schema(py: Python<'_>, schema: &str, lenient: bool, compact: bool, closed: bool) -> Result<Self> {
        let schema = parsed("the schema", schema)?;
        made(py, || lamina::Grammar::json_schema(&schema, SchemaOptions { lenient, compact, closed }))
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

    fn matches(&self, py: Python<'_>, text: &[u8]) -> Result<bool> {
        freely(py, || Ok(self.0.verdict(text)? == GrammarVerdict::Whole))
    }

    fn allows(&self, py: Python<'_>, prefix: &[u8]) -> Result<bool> {
        freely(py, || Ok(self.0.verdict(prefix)? != GrammarVerdict::Neither))
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
        let words = freely(py, || {
            let mut matcher = self.lock();
            let mut words = vec![0; matcher.vocabulary().mask_words()];
            matcher.mask(&mut words).map(|()| words)
        })?;
        Ok(PyArray1::from_vec(py, words))
    }

    fn allows(&self, py: Python<'_>, token: u32) -> Result<bool> {
        freely(py, || Ok(self.lock().allows(token)))
    }

    fn accept(&self, py: Python<'_>, token: u32) -> Result<()> {
        freely(py, || self.lock().accept(token))
    }

    fn forced(&self, py: Python<'_>) -> Result<Vec<u32>> {
        freely(py, || Ok(self.lock().forced()))
    }

    fn legal(&self, py: Python<'_>, tokens: Vec<u32>) -> Result<usize> {
        freely(py, || Ok(self.lock().legal(&tokens)))
    }

    fn rollback(&self, py: Python<'_>, count: usize) -> Result<()> {
        freely(py, || self.lock().rollback(count))
    }

    fn finished(&self) -> bool {
        self.lock().stopped().is_some()
    }

    fn accepting(&self, py: Python<'_>) -> Result<bool> {
        freely(py, || Ok(self.lock().is_accepting()))
    }

    fn fork(&self, py: Python<'_>) -> Result<PyMatcher> {
        freely(py, || Ok(self.lock().fork())).map(PyMatcher::new)
    }
}
