//! GPUs of Apple silicon.

use crate::{Error, Result, on_backend::OnBackend};
use lamina_candle::Candle;
use lamina_gpu::{Gpu, self_test};
use lamina_metal::{MetalGpu, MetalUnusable};
use std::sync::Once;

/// Does `work` on the GPU: by our kernels or, where Metal refuses them or they compute wrong numbers, by candle's, with a line
/// on stderr.
///
/// # Errors
/// When there is no GPU that can be used, or the work fails.
pub(crate) fn on_metal<W: OnBackend>(work: W) -> Result<W::Out> {
    static TOLD: Once = Once::new();
    match opened() {
        Ok(backend) => work.run(backend),
        Err(why) if why.leaves_candle() => {
            TOLD.call_once(|| eprintln!("{why}: running candle's kernels, prompts will be slow"));
            let backend = Candle::metal().map_err(|e| Error::Unsupported(format!("metal: {e}")))?;
            work.run(backend)
        }
        Err(why) => Err(Error::Unsupported(why.to_string())),
    }
}

/// A GPU that does what it has to.
fn opened() -> std::result::Result<Gpu<MetalGpu>, MetalUnusable> {
    let device = MetalGpu::open()?;
    self_test(&device)?;
    Ok(Gpu::new(device))
}
