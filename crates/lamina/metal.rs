//! GPUs of Apple silicon.

use crate::{Error, Result, on_backend::OnBackend};
use lamina_candle::Candle;

/// Does `work` on the GPU.
///
/// # Errors
/// When it cannot be used, or the work fails.
pub(crate) fn on_metal<W: OnBackend>(work: W) -> Result<W::Out> {
    let backend = Candle::metal().map_err(|why| Error::Unsupported(format!("metal: {why}")))?;
    work.run(backend)
}
