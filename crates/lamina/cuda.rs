//! NVIDIA GPUs.

use crate::{Error, Result, on_backend::OnBackend};
use lamina_cuda::{CudaDevice, CudaUnusable};
use lamina_gpu::{Gpu, self_test};
use lamina_plan::Backend;
use std::sync::Once;

/// Does `work` on GPU `number`, with `host` beside it.
///
/// # Errors
/// When it cannot be used, or the work fails.
pub(crate) fn on_cuda<W: OnBackend, B: Backend + 'static>(
    number: usize,
    host: impl FnOnce() -> Result<B>,
    work: W,
) -> Result<W::Out> {
    let backend = opened(number).map_err(|why| Error::Unsupported(why.to_string()))?;
    work.run_beside(backend, host)
}

/// Does `work` on the first GPU with `host` beside it, or gives it back where there is none. A GPU that is there and cannot be used is worth a line
/// on stderr, once.
pub(crate) fn on_first<W: OnBackend, B: Backend + 'static>(
    host: impl FnOnce() -> Result<B>,
    work: W,
) -> std::result::Result<Result<W::Out>, W> {
    static TOLD: Once = Once::new();
    match opened(0) {
        Ok(backend) => Ok(work.run_beside(backend, host)),
        Err(why) => {
            if !why.is_absent() {
                TOLD.call_once(|| eprintln!("{why}: running on the CPU"));
            }
            Err(work)
        }
    }
}

/// A GPU that does what it has to.
fn opened(number: usize) -> std::result::Result<Gpu<CudaDevice>, CudaUnusable> {
    let device = CudaDevice::open(number)?;
    self_test(&device)?;
    Ok(Gpu::new(device))
}
