//! From a device's name to its backend: the one place that knows backends by name.

use crate::{
    Error, Result,
    cuda::{on_cuda, on_first},
    metal::on_metal,
    on_backend::OnBackend,
    threads::default_threads,
};
use lamina_cpu::Cpu;
use lamina_load::Device;

/// The devices that this build has a backend for, the fastest first; GPUs by the first one.
#[cfg(any(target_os = "linux", windows))]
pub const DEVICES: &[Device] = &[Device::Cuda(0), Device::Cpu];

/// The devices that this build has a backend for. Metal stands behind the processor until somebody has measured it.
#[cfg(all(target_os = "macos", target_arch = "aarch64"))]
pub const DEVICES: &[Device] = &[Device::Cpu, Device::Metal];

/// The devices that this build has a backend for.
#[cfg(not(any(target_os = "linux", windows, all(target_os = "macos", target_arch = "aarch64"))))]
pub const DEVICES: &[Device] = &[Device::Cpu];

/// Names that `device=` takes in this build.
pub fn devices() -> Vec<String> {
    [Device::Auto].iter().chain(DEVICES).map(ToString::to_string).collect()
}

/// Does `work` on the backend of `device`, with `threads` threads (of a GPU they run what the host does); none means all
/// physical cores that the process may use. `auto` is a GPU that can be used, or else the processor.
///
/// # Errors
/// When this build has no backend for the device, the device cannot be used, the threads make no sense, or the work fails.
pub fn on_device<W: OnBackend>(device: Device, threads: Option<usize>, work: W) -> Result<W::Out> {
    match device {
        Device::Auto => on_first(|| cpu(threads), work).unwrap_or_else(|work| work.run(cpu(threads)?)),
        Device::Cpu => work.run(cpu(threads)?),
        Device::Cuda(number) => on_cuda(number, || cpu(threads), work),
        Device::Metal if DEVICES.contains(&device) => on_metal(work),
        Device::Metal => Err(Error::Unsupported(format!(
            "device `{device}`: this build has no backend for it; it has: {}",
            devices().join(" ")
        ))),
    }
}

/// Does the work on a GPU that can be used and, where there is none or it cannot do this work, on the processor: `cannot` says
/// why, of what the work gave on the GPU. The reason is then a line on stderr.
///
/// # Errors
/// Those of the work on the device that did it last.
pub(crate) fn on_what_can<W: OnBackend>(
    threads: Option<usize>,
    work: impl Fn() -> W,
    cannot: impl Fn(&Result<W::Out>) -> Option<String>,
) -> Result<W::Out> {
    let Ok(done) = on_first(|| cpu(threads), work()) else { return work().run(cpu(threads)?) };
    let Some(why) = cannot(&done) else { return done };
    let done = work().run(cpu(threads)?)?;
    // What the processor cannot do either has one reason only.
    eprintln!("cuda: {}: running on the CPU", why.strip_prefix("cuda: ").unwrap_or(&why));
    Ok(done)
}

fn cpu(threads: Option<usize>) -> Result<Cpu> {
    let threads = threads.unwrap_or_else(default_threads);
    if threads == 0 || threads > 1024 {
        return Err(Error::InvalidRequest(format!("threads is {threads}, but must be from 1 to 1024")));
    }
    Cpu::new(threads).map_err(|e| Error::Unsupported(e.to_string()))
}
