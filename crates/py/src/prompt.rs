//! Prompts: text, or token ids as a numpy array.

use lamina::Prompt;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::{
    exceptions::{PyMemoryError, PyTypeError},
    prelude::*,
    types::PyString,
};

/// An argument that is text or ids. Python has checked the ids and brought them into an array of `uint32`.
pub struct PromptArg(pub Prompt);

impl<'py> FromPyObject<'_, 'py> for PromptArg {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = value.cast::<PyString>() {
            let bytes = copy(text.encode_utf8()?.as_bytes())?;
            return Ok(PromptArg(Prompt::Text(String::from_utf8(bytes)?)));
        }
        let ids = value
            .cast::<PyArray1<u32>>()
            .map_err(|_| PyTypeError::new_err("expected str or uint32 array"))?;
        Ok(PromptArg(Prompt::Tokens(copy(ids.readonly().as_slice()?)?)))
    }
}

/// A prompt may be of any length, and memory of none.
fn copy<T: Copy>(all: &[T]) -> PyResult<Vec<T>> {
    let mut out = vec![];
    out.try_reserve_exact(all.len())
        .map_err(|_| PyMemoryError::new_err("there is no memory for the prompt"))?;
    out.extend_from_slice(all);
    Ok(out)
}
