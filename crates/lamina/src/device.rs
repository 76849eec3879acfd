//! From a device's name to its backend: the one place that knows backends by name.

#[cfg(all(feature = "cuda", any(target_os = "linux", windows)))]
use crate::cuda::{self, gpus};
#[cfg(all(feature = "metal", target_os = "macos", target_arch = "aarch64"))]
use crate::metal;
use crate::{Error, Result, gpu_search::GpuSearch, threads::default_threads};
use lamina_cpu::Cpu;
use lamina_load::{Device, Reporter};
use lamina_plan::Backend;

/// What runs where no GPU is taken, in the words of messages.
const CPU: &str = "the CPU";

/// The devices that this build has a backend for, the fastest first; GPUs by the first one.
#[cfg(all(feature = "cuda", any(target_os = "linux", windows)))]
pub const DEVICES: &[Device] = &[Device::Cuda(0), Device::Cpu];

/// The devices that this build has a backend for. Metal stands behind the processor until somebody has measured it.
#[cfg(all(feature = "metal", target_os = "macos", target_arch = "aarch64"))]
pub const DEVICES: &[Device] = &[Device::Cpu, Device::Metal];

/// The devices that this build has a backend for.
#[cfg(not(any(
    all(feature = "cuda", any(target_os = "linux", windows)),
    all(feature = "metal", target_os = "macos", target_arch = "aarch64")
)))]
pub const DEVICES: &[Device] = &[Device::Cpu];

#[cfg(all(feature = "cuda", any(target_os = "linux", windows)))]
pub use crate::cuda::gpu_joules;

/// Joules that the GPUs of this process took so far: this build has no backend that tells them.
///
/// # Errors
/// None.
#[cfg(not(all(feature = "cuda", any(target_os = "linux", windows))))]
pub fn gpu_joules() -> std::result::Result<Option<f64>, String> {
    Ok(None)
}

/// Names that `device=` takes in this build.
pub fn devices() -> Vec<String> {
    [Device::Auto].iter().chain(DEVICES).map(ToString::to_string).collect()
}

/// True where a GPU can be used.
pub(crate) fn has_gpu() -> bool {
    gpus().any(|(_, opened)| opened.is_ok())
}

/// A device that was opened.
pub(crate) enum OpenedDevice {
    /// It computes whole models.
    Alone(Box<dyn Backend>),
    /// It may share a model with the processor.
    BesideCpu(Box<dyn Backend>),
}

/// The backend of `device`, with `threads` threads (of a GPU they run what the host does); none means all physical cores that
/// the process may use. `auto` is the first GPU that can be used, or else the processor.
///
/// # Errors
/// When this build has no backend for the device, the device cannot be used, or the threads make no sense.
pub fn backend_on(device: Device, threads: Option<usize>) -> Result<Box<dyn Backend>> {
    let backend = |on: OpenedDevice| match on {
        OpenedDevice::Alone(backend) | OpenedDevice::BesideCpu(backend) => Ok(backend),
    };
    on_device(device, threads, &Reporter::default(), backend, |_| None)
}

/// Does `work` on `device`. For `auto` that is the first GPU that can be used and can do this work or, where there is none, the
/// processor: `cannot` says why, of what the work gave on a GPU. The reasons are then lines of the report.
///
/// # Errors
/// Those of [`backend_on`], and those of the work on the device that did it last.
pub(crate) fn on_device<T>(
    device: Device,
    threads: Option<usize>,
    report: &Reporter,
    work: impl Fn(OpenedDevice) -> Result<T>,
    cannot: impl Fn(&Result<T>) -> Option<String>,
) -> Result<T> {
    if device != Device::Auto {
        return work(open(device, threads, report)?);
    }
    let mut search = GpuSearch::default();
    for (device, opened) in gpus() {
        match opened {
            Ok(backend) => {
                let done = work(OpenedDevice::BesideCpu(backend));
                let Some(why) = cannot(&done) else {
                    search.tell(&device, report);
                    return done;
                };
                search.skip(device, &why);
            }
            Err(why) => search.skip_unusable(device, &why.to_string()),
        }
    }
    // What the processor cannot do either has one reason only.
    let done = work(OpenedDevice::Alone(cpu(threads)?))?;
    search.tell(CPU, report);
    Ok(done)
}

/// Opens a device that is named.
#[cfg_attr(
    not(all(feature = "metal", target_os = "macos", target_arch = "aarch64")),
    expect(unused_variables, reason = "Metal reports")
)]
fn open(device: Device, threads: Option<usize>, report: &Reporter) -> Result<OpenedDevice> {
    match device {
        Device::Cpu => Ok(OpenedDevice::Alone(cpu(threads)?)),
        #[cfg(all(feature = "cuda", any(target_os = "linux", windows)))]
        Device::Cuda(number) => {
            let backend = cuda::open(number).map_err(|why| Error::Unsupported(why.to_string()))?;
            Ok(OpenedDevice::BesideCpu(backend))
        }
        #[cfg(all(feature = "metal", target_os = "macos", target_arch = "aarch64"))]
        Device::Metal => metal::open(report).map(OpenedDevice::Alone),
        other => Err(Error::Unsupported(format!(
            "device `{other}`: this build has no backend for it; it has: {}",
            devices().join(" ")
        ))),
    }
}

/// GPUs that `auto` tries: none here.
#[cfg(not(all(feature = "cuda", any(target_os = "linux", windows))))]
fn gpus() -> impl Iterator<Item = (String, Result<Box<dyn Backend>>)> {
    std::iter::empty()
}

/// The processor, with all physical cores that the process may use where `threads` says nothing.
///
/// # Errors
/// When the threads make no sense, or the processor lacks the instruction set that was asked for.
pub(crate) fn cpu(threads: Option<usize>) -> Result<Box<dyn Backend>> {
    let threads = threads.unwrap_or_else(default_threads);
    if threads == 0 || threads > 1024 {
        return Err(Error::InvalidRequest(format!("threads is {threads}, but must be from 1 to 1024")));
    }
    let cpu = Cpu::new(threads).map_err(|e| Error::Unsupported(e.to_string()))?;
    Ok(Box::new(cpu))
}
