//! NVIDIA GPUs.

use crate::{Error, Result, gpu_search::GpuSearch, on_backend::OnBackend};
use lamina_cuda::{CudaDevice, CudaUnusable};
use lamina_gpu::{Gpu, self_test};
use lamina_plan::Backend;

/// What runs where no GPU is taken, in the words of messages.
const CPU: &str = "the CPU";

/// What opening a GPU gives.
type Opened = std::result::Result<Gpu<CudaDevice>, CudaUnusable>;

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

/// Does `work` on the first GPU that can be used, with `host` beside it, or, where there is none, `otherwise`.
///
/// # Errors
/// Those of what did the work.
pub(crate) fn on_first<W: OnBackend, B: Backend + 'static>(
    host: impl FnOnce() -> Result<B>,
    work: W,
    otherwise: impl FnOnce(W) -> Result<W::Out>,
) -> Result<W::Out> {
    let mut search = GpuSearch::default();
    for (device, opened) in each() {
        match opened {
            Ok(backend) => {
                search.tell(&device);
                return work.run_beside(backend, host);
            }
            Err(why) => search.skip_unusable(device, &why.to_string()),
        }
    }
    search.tell(CPU);
    otherwise(work)
}

/// Does the work on the first GPU that can be used and can do it, with `host` beside it, or, where there is none, `otherwise`:
/// `cannot` says why a GPU cannot, of what the work gave there. Once the work is done, the reasons are lines on stderr.
///
/// # Errors
/// Those of what did the work.
pub(crate) fn on_any<W: OnBackend, B: Backend + 'static>(
    host: impl Fn() -> Result<B>,
    work: impl Fn() -> W,
    cannot: impl Fn(&Result<W::Out>) -> Option<String>,
    otherwise: impl FnOnce() -> Result<W::Out>,
) -> Result<W::Out> {
    let mut search = GpuSearch::default();
    for (device, opened) in each() {
        match opened {
            Ok(backend) => {
                let done = work().run_beside(backend, &host);
                let Some(why) = cannot(&done) else {
                    search.tell(&device);
                    return done;
                };
                search.skip(device, &why);
            }
            Err(why) => search.skip_unusable(device, &why.to_string()),
        }
    }
    // What the processor cannot do either has one reason only.
    let done = otherwise()?;
    search.tell(CPU);
    Ok(done)
}

/// The GPUs by their numbers, with their names; each is opened when its turn comes. A machine without any has none, and says
/// nothing; of a driver that cannot be used the reason comes in the place of its devices.
fn each() -> impl Iterator<Item = (String, Opened)> {
    let (count, unusable) = match CudaDevice::count() {
        Ok(count) => (count, None),
        Err(why) => (0, Some(why).filter(|why| !why.is_absent())),
    };
    let name = move |number| if count == 1 { "cuda".to_owned() } else { format!("cuda:{number}") };
    let unusable = unusable.into_iter().map(|why| ("cuda".to_owned(), Err(why)));
    unusable.chain((0..count).map(move |number| (name(number), opened(number))))
}

/// A GPU that does what it has to.
fn opened(number: usize) -> Opened {
    let device = CudaDevice::open(number)?;
    self_test(&device)?;
    Ok(Gpu::new(device))
}
