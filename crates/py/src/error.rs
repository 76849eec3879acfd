//! Errors as Python exceptions. The classes are Python's (`lamina.errors`); this is the one place that picks them.

use pyo3::{prelude::*, types::PyType};

/// What ends a call: an error of Lamina, or one of Python such as `KeyboardInterrupt`.
pub enum Failure {
    Lamina(lamina::Error),
    Python(PyErr),
}

pub type Result<T> = std::result::Result<T, Failure>;

impl<E: Into<lamina::Error>> From<E> for Failure {
    fn from(e: E) -> Self {
        Failure::Lamina(e.into())
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Python(e) => e,
            Failure::Lamina(e) => Python::attach(|py| exception(py, &e).unwrap_or_else(|missing| missing)),
        }
    }
}

fn exception(py: Python<'_>, error: &lamina::Error) -> PyResult<PyErr> {
    use lamina::Error::*;
    let name = match error {
        Model(_) => "ModelError",
        Format(_) => "FormatError",
        Unsupported(_) => "UnsupportedError",
        OutOfMemory(_) => "OutOfMemoryError",
        DeviceLost(_) => "DeviceLostError",
        InvalidRequest(_) => "InvalidRequestError",
        Runtime(_) => "LaminaError",
    };
    let class = py.import("lamina.errors")?.getattr(name)?.cast_into::<PyType>()?;
    Ok(PyErr::from_type(class, error.to_string()))
}

/// A refusal of an argument.
pub fn invalid(message: String) -> Failure {
    Failure::Lamina(lamina::Error::InvalidRequest(message))
}
