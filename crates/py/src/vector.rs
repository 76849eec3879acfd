//! `_lamina.Vector`: an embedding that is computed.

use crate::{discard::discard_shared, error::Result, watch::watch};
use lamina::{Error, Model, SentRow};
use numpy::PyArray1;
use pyo3::prelude::*;
use std::{
    process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, ready},
};

/// The vector of a text, when it is there. Dropping it cancels the pass.
#[pyclass(frozen, module = "lamina._lamina")]
pub struct Vector {
    /// None once closed.
    pass: Arc<Mutex<Option<OpenPass>>>,
    process: u32,
}

/// A pass with its model, which lives as long as the pass does.
struct OpenPass {
    sent: SentRow,
    /// How it ended, once it has.
    end: Option<lamina::Result<()>>,
    _model: Model,
}

impl Vector {
    pub fn new(sent: SentRow, model: Model) -> Vector {
        let pass = OpenPass { sent, end: None, _model: model };
        Vector { pass: Arc::new(Mutex::new(Some(pass))), process: process::id() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<OpenPass>> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Vector {
    /// Calls `call` once, from any thread, when the vector is there or the pass has failed.
    fn watch(&self, call: Py<PyAny>) -> Result<()> {
        let pass = self.pass.clone();
        watch(call, move |context| {
            if let Some(open) = &mut *pass.lock().unwrap_or_else(PoisonError::into_inner) {
                open.end = Some(ready!(open.sent.poll(context)));
            }
            Poll::Ready(())
        })
    }

    /// The vector, after a watch has called.
    fn take<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyArray1<f32>>> {
        let mut lock = self.lock();
        let pending = || Error::Runtime("the vector is not there yet".into());
        let open = lock.as_mut().ok_or_else(pending)?;
        open.end.take().ok_or_else(pending)??;
        Ok(PyArray1::from_vec(py, open.sent.rows.unit()))
    }

    /// Cancels what is not done.
    fn close(&self, py: Python<'_>) {
        if self.process == process::id() {
            py.detach(|| drop(self.lock().take()));
        }
    }
}

impl Drop for Vector {
    fn drop(&mut self) {
        discard_shared(self.process, &self.pass);
    }
}
