//! GPUs of Apple silicon.

use crate::{Error, Result};
use lamina_candle::Candle;
use lamina_gpu::{Gpu, self_test};
use lamina_load::Reporter;
use lamina_metal::{MetalGpu, MetalUnusable};
use lamina_plan::Backend;
use std::sync::Once;

/// The GPU with our kernels or, where Metal refuses them or they compute wrong numbers, with candle's and a line of the report.
///
/// # Errors
/// When there is no GPU that can be used.
pub(crate) fn open(report: &Reporter) -> Result<Box<dyn Backend>> {
    static TOLD: Once = Once::new();
    match opened() {
        Ok(backend) => Ok(Box::new(backend)),
        Err(why) if why.leaves_candle() => {
            TOLD.call_once(|| report.line(&format!("{why}: running candle's kernels, prompts will be slow")));
            let backend = Candle::metal().map_err(|e| Error::Unsupported(format!("metal: {e}")))?;
            Ok(Box::new(backend))
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
