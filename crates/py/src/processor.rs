//! `processor=`: a Python function that changes rows of logits.

use lamina::sample::{LogitsProcessor, Processor};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::{exceptions::PyValueError, prelude::*};
use std::sync::{Arc, Mutex, PoisonError};

/// What a processor has raised, which ends its request.
#[derive(Clone, Default)]
pub struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// What it was; told once.
    pub fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A function as a processor.
    pub fn processor(&self, function: Py<PyAny>) -> Processor {
        Processor::new(PyProcessor { function, raised: self.clone() })
    }
}

struct PyProcessor {
    function: Py<PyAny>,
    raised: Raised,
}

impl LogitsProcessor for PyProcessor {
    fn process(&self, tokens: &[u32], logits: &mut [f32]) -> Result<(), String> {
        let called = Python::try_attach(|py| self.call(py, tokens, logits));
        called.unwrap_or(Ok(())).map_err(|e| {
            let text = e.to_string();
            *self.raised.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
            text
        })
    }
}

impl PyProcessor {
    /// The function is given copies: it may keep what it was given.
    fn call(&self, py: Python<'_>, tokens: &[u32], logits: &mut [f32]) -> PyResult<()> {
        let (tokens, row) = (PyArray1::from_slice(py, tokens), PyArray1::from_slice(py, logits));
        self.function.call1(py, (tokens, &row))?;
        let (changed, count) = (row.try_readonly()?, logits.len());
        let changed = changed.as_slice().ok().filter(|changed| changed.len() == count);
        let resized = || PyValueError::new_err(format!("the processor resized its row of {count} logits"));
        logits.copy_from_slice(changed.ok_or_else(resized)?);
        Ok(())
    }
}
