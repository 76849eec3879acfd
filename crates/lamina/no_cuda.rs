//! Systems that NVIDIA has no driver for.

use crate::{Error, Result, on_backend::OnBackend};

/// Refuses: there is no such device here.
///
/// # Errors
/// Always.
pub(crate) fn on_cuda<W: OnBackend>(_number: usize, _work: W) -> Result<W::Out> {
    Err(Error::Unsupported("cuda: this system has no NVIDIA driver".into()))
}

/// Gives `work` back.
pub(crate) fn on_first<W: OnBackend>(work: W) -> std::result::Result<Result<W::Out>, W> {
    Err(work)
}
