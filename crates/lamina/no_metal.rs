//! Systems without Apple silicon.

use crate::{Error, Result, on_backend::OnBackend};

/// Refuses: there is no such device here.
///
/// # Errors
/// Always.
pub(crate) fn on_metal<W: OnBackend>(_work: W) -> Result<W::Out> {
    Err(Error::Unsupported("metal: this system has none".into()))
}
