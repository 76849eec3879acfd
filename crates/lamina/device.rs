//! From a device's name to its backend: the one place that knows backends by name.

use crate::{Error, Result, threads::default_threads};
use lamina_cpu::Cpu;
use lamina_load::Device;
use lamina_plan::Backend;

/// The devices that this build has a backend for, the fastest first.
pub const DEVICES: &[Device] = &[Device::Cpu];

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

/// Names that `device=` takes in this build.
pub fn devices() -> Vec<String> {
    [Device::Auto].iter().chain(DEVICES).map(ToString::to_string).collect()
}

/// Does `work` on the backend of `device`, with `threads` threads (of a GPU they run what the host does); none means all
/// physical cores that the process may use.
///
/// # Errors
/// When this build has no backend for the device, the threads make no sense, or the work fails.
pub fn on_device<W: OnBackend>(device: Device, threads: Option<usize>, work: W) -> Result<W::Out> {
    match device {
        Device::Auto | Device::Cpu => work.run(cpu(threads)?),
        Device::Cuda(_) | Device::Metal => Err(Error::Unsupported(format!(
            "device `{device}`: this build has no backend for it; it has: {}",
            devices().join(" ")
        ))),
    }
}

fn cpu(threads: Option<usize>) -> Result<Cpu> {
    let threads = threads.unwrap_or_else(default_threads);
    if threads == 0 || threads > 1024 {
        return Err(Error::InvalidRequest(format!("threads is {threads}, but must be from 1 to 1024")));
    }
    Cpu::new(threads).map_err(|e| Error::Unsupported(e.to_string()))
}
