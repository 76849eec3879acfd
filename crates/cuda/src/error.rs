//! Why a CUDA device cannot be used, in one line each, and what the driver's codes mean.

use cudarc::driver::{result::DriverError, sys::CUresult};
use lamina_plan::{BackendError, backend::Result};
use std::fmt;

/// What opening a device gives.
pub(crate) type Opened<T> = std::result::Result<T, CudaUnusable>;

/// Name of the backend in messages.
pub(crate) const NAME: &str = "cuda";

/// Why a device cannot be used. Each message is one line that begins with the backend's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaUnusable {
    /// No driver is installed.
    #[error("cuda: no NVIDIA driver is installed")]
    NoDriver,
    /// The driver lacks a function.
    #[error("cuda: the driver has no function {0}: needed is driver 525 or newer")]
    MissingSymbol(&'static str),
    /// The driver is too old; the version of CUDA that it knows, as 1000 times the major one and 10 times the minor one.
    #[error("cuda: the driver knows CUDA {}.{}, needed is 12.0: install driver 525 or newer", .0 / 1000, .0 % 1000 / 10)]
    OldDriver(i32),
    /// The driver finds fewer devices.
    #[error("cuda: there is no device {number}: the driver finds {count}")]
    NoDevice {
        /// The device that was asked for.
        number: usize,
        /// Devices that there are.
        count: usize,
    },
    /// Kernels are not made for a device as old as this.
    #[error("cuda: {name} has compute capability {}.{}, needed is 8.0 or newer", .capability / 10, .capability % 10)]
    OldDevice {
        /// Name of the device.
        name: String,
        /// Ten times the major number and the minor one.
        capability: u32,
    },
    /// There are no kernels for the device, and none can be compiled.
    #[error("cuda: there are no kernels for {architecture}: {why}")]
    NoKernels {
        /// Architecture of the device, such as `sm_90`.
        architecture: String,
        /// What is missing or wrong.
        why: String,
    },
    /// A call failed.
    #[error("{0}")]
    Failed(String),
}

impl CudaUnusable {
    /// True where the machine has no NVIDIA GPU at all, so that nobody expects one to be used.
    pub fn is_absent(&self) -> bool {
        matches!(self, CudaUnusable::NoDriver | CudaUnusable::NoDevice { count: 0, .. })
    }
}

impl From<BackendError> for CudaUnusable {
    fn from(e: BackendError) -> Self {
        let words = e.to_string();
        let named = words.starts_with(NAME);
        CudaUnusable::Failed(if named { words } else { format!("{NAME}: {words}") })
    }
}

/// Codes after which nothing more can be asked of the context: every later call fails too.
const LOST: &[CUresult] = &[
    CUresult::CUDA_ERROR_DEINITIALIZED,
    CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE,
    CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
    CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
    CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
    CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
    CUresult::CUDA_ERROR_ASSERT,
    CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
    CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUresult::CUDA_ERROR_INVALID_PC,
    CUresult::CUDA_ERROR_LAUNCH_FAILED,
    CUresult::CUDA_ERROR_EXTERNAL_DEVICE,
    CUresult::CUDA_ERROR_UNKNOWN,
];

/// The driver's answer to `what`, which is a part of a sentence such as `copying to the device`.
pub(crate) fn check(what: impl fmt::Display, outcome: CUresult) -> Result<()> {
    if outcome == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let what = format!("{what} failed: {}", words(outcome));
    Err(BackendError::Device { backend: NAME, what, lost: LOST.contains(&outcome) })
}

/// A code in the driver's own words.
fn words(outcome: CUresult) -> String {
    let error = DriverError(outcome);
    match (error.error_string(), error.error_name()) {
        (Ok(words), Ok(name)) => format!("{} ({})", words.to_string_lossy(), name.to_string_lossy()),
        _ => format!("code {}", outcome as u32),
    }
}

/// True for the code that says so.
pub(crate) fn is_out_of_memory(outcome: CUresult) -> bool {
    outcome == CUresult::CUDA_ERROR_OUT_OF_MEMORY
}
