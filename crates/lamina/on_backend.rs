//! Work for any backend.

use crate::Result;
use lamina_plan::Backend;

/// Work that is written once for every backend.
pub trait OnBackend {
    /// What it gives.
    type Out;

    /// Does the work on `backend`.
    ///
    /// # Errors
    /// Those of the work.
    fn run<B: Backend + 'static>(self, backend: B) -> Result<Self::Out>;
}
