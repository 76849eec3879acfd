//! NVIDIA GPUs.

use lamina_cuda::{CudaDevice, CudaUnusable};
use lamina_gpu::{Gpu, self_test};
use lamina_plan::Backend;

/// What opening a GPU gives.
type Opened = Result<Box<dyn Backend>, CudaUnusable>;

/// GPU `number`, which does what it has to.
///
/// # Errors
/// When it cannot be used.
pub(crate) fn open(number: usize) -> Opened {
    let device = CudaDevice::open(number)?;
    self_test(&device)?;
    Ok(Box::new(Gpu::new(device)))
}

/// Joules that the GPUs which this process has open took so far, for all programs; none where it has none open.
///
/// # Errors
/// Why it is not known.
pub fn gpu_joules() -> Result<Option<f64>, String> {
    lamina_cuda::joules()
}

/// The GPUs by their numbers, with their names; each is opened when its turn comes. A machine without any has none, and says
/// nothing; of a driver that cannot be used the reason comes in the place of its devices.
pub(crate) fn gpus() -> impl Iterator<Item = (String, Opened)> {
    let (count, unusable) = match CudaDevice::count() {
        Ok(count) => (count, None),
        Err(why) => (0, Some(why).filter(|why| !why.is_absent())),
    };
    let name = move |number| if count == 1 { "cuda".to_owned() } else { format!("cuda:{number}") };
    let unusable = unusable.into_iter().map(|why| ("cuda".to_owned(), Err(why)));
    unusable.chain((0..count).map(move |number| (name(number), open(number))))
}
