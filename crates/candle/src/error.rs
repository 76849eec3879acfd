//! candle's errors in the words of the contract.

use lamina_plan::BackendError;

/// Name of the backend in messages.
pub(crate) const NAME: &str = "candle";

/// What candle could not do.
pub(crate) fn failed(e: candle_core::Error) -> BackendError {
    BackendError::Device { backend: NAME, what: e.to_string(), lost: false }
}

/// What the backend does not run.
pub(crate) fn unsupported(what: String) -> BackendError {
    BackendError::Unsupported { backend: NAME, what }
}
