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

/// Gives `work` back.
pub(crate) fn on_first<W: OnBackend, B: Backend + 'static>(
    _host: impl FnOnce() -> Result<B>,
    work: W,
) -> std::result::Result<Result<W::Out>, W> {
    Err(work)
}
