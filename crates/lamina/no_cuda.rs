//! Systems that NVIDIA has no driver for.

use crate::{Error, Result, on_backend::OnBackend};
use lamina_plan::Backend;

/// Refuses: there is no such device here.
///
/// # Errors
/// Always.
pub(crate) fn on_cuda<W: OnBackend, B: Backend + 'static>(
    _number: usize,
    _host: impl FnOnce() -> Result<B>,
    _work: W,
) -> Result<W::Out> {
    Err(Error::Unsupported("cuda: this system has no NVIDIA driver".into()))
}

/// Does `otherwise`.
///
/// # Errors
/// Those of what did the work.
pub(crate) fn on_first<W: OnBackend, B: Backend + 'static>(
    _host: impl FnOnce() -> Result<B>,
    work: W,
    otherwise: impl FnOnce(W) -> Result<W::Out>,
) -> Result<W::Out> {
    otherwise(work)
}

/// Does `otherwise`.
///
/// # Errors
/// Those of what did the work.
pub(crate) fn on_any<W: OnBackend, B: Backend + 'static>(
    _host: impl Fn() -> Result<B>,
    _work: impl Fn() -> W,
    _cannot: impl Fn(&Result<W::Out>) -> Option<String>,
    otherwise: impl FnOnce() -> Result<W::Out>,
) -> Result<W::Out> {
    otherwise()
}
