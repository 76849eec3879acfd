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

    /// Does the work on `device`, or on it and the host beside it, where the work is of a kind that can be divided.
    ///
    /// # Errors
    /// Those of the work.
    fn run_beside<A, B, H>(self, device: A, _host: H) -> Result<Self::Out>
    where
        Self: Sized,
        A: Backend + 'static,
        B: Backend + 'static,
        H: FnOnce() -> Result<B>,
    {
        self.run(device)
    }
}
