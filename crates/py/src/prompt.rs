//! Prompts: text, or token ids as a numpy array.

use lamina::Prompt;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::{exceptions::PyTypeError, prelude::*, types::PyString};

/// An argument that is text or ids. Python has checked the ids and brought them into an array of `uint32`.
pub struct PromptArg(pub Prompt);

impl<'py> FromPyObject<'_, 'py> for PromptArg {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(PromptArg(Prompt::Text(text.to_cow()?.into_owned())));
        }
        let ids = value
            .cast::<PyArray1<u32>>()
            .map_err(|_| PyTypeError::new_err("expected str or uint32 array"))?;
        Ok(PromptArg(Prompt::Tokens(ids.to_vec()?)))
    }
}
