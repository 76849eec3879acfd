//! Why a CUDA device cannot be used, in one line each, and what the driver's codes mean.

use crate::sys::{self, Code};
use lamina_plan::{BackendError, backend::Result};
use std::{ffi::CStr, fmt, ops::RangeInclusive, ptr};

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
    #[error("cuda: {name} has compute capability {}.{}, needed is 7.5 or newer", .capability / 10, .capability % 10)]
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

/// Codes after which the device goes on: what was asked for was wrong, too much, or not supported. After any other one, and
/// any that only newer drivers know, nothing more can be asked of the context.
const GOES_ON: &[RangeInclusive<Code>] = &[
    1..=3,
    34..=36,
    100..=102,
    200..=213,
    215..=219,
    221..=225,
    300..=304,
    400..=402,
    500..=500,
    600..=600,
    701..=701,
    703..=708,
    711..=713,
    720..=720,
    800..=804,
    811..=812,
    900..=910,
    912..=915,
];

/// What to do about codes that a driver starts with, or a device is opened with.
const ADVICE: &[(Code, &str)] = &[
    (sys::OUT_OF_MEMORY, "end other programs on the device"),
    (46, "another program may have the device for itself: see nvidia-smi"),
    (802, "its services are not up yet: start nvidia-fabricmanager, or wait for it"),
    (
        803,
        "its kernel module and its library are of different versions, as after an update: restart the machine",
    ),
    (804, "this device has no forward compatibility: take the folder of cuda-compat out of LD_LIBRARY_PATH"),
    (
        999,
        "its kernel module may not be loaded, or a container lacks /dev/nvidia-uvm: run nvidia-smi on the host, then start again",
    ),
];

/// The driver's answer to `what`, which is a part of a sentence such as `copying to the device`.
pub(crate) fn check(what: impl fmt::Display, outcome: Code) -> Result<()> {
    if outcome == sys::SUCCESS {
        return Ok(());
    }
    let what = format!("{what} failed: {}", words(outcome));
    let lost = !GOES_ON.iter().any(|codes| codes.contains(&outcome));
    Err(BackendError::Device { backend: NAME, what, lost })
}

/// The same before a device is open: there is none to be lost, and often something to be done.
pub(crate) fn check_start(what: &str, outcome: Code) -> Opened<()> {
    if outcome == sys::SUCCESS {
        return Ok(());
    }
    let advice = ADVICE.iter().find(|(code, _)| *code == outcome).map(|(_, advice)| format!(": {advice}"));
    let said = words(outcome);
    Err(CudaUnusable::Failed(format!("{NAME}: {what} failed: {said}{}", advice.unwrap_or_default())))
}

/// A code in the driver's own words.
fn words(outcome: Code) -> String {
    let (mut words, mut name) = (ptr::null(), ptr::null());
    // SAFETY: the driver writes the address of a text of its own, which stays.
    let described = unsafe { sys::cuGetErrorString(outcome, &raw mut words) };
    // SAFETY: as above.
    let named = unsafe { sys::cuGetErrorName(outcome, &raw mut name) };
    if (described, named) != (sys::SUCCESS, sys::SUCCESS) || words.is_null() || name.is_null() {
        return format!("code {outcome}");
    }
    // SAFETY: the driver gave a text with its end.
    let words = unsafe { CStr::from_ptr(words) };
    // SAFETY: as above.
    let name = unsafe { CStr::from_ptr(name) };
    format!("{} ({})", words.to_string_lossy(), name.to_string_lossy())
}

/// True for the code that says so.
pub(crate) fn is_out_of_memory(outcome: Code) -> bool {
    outcome == sys::OUT_OF_MEMORY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_nobody_knows_lose_the_device() {
        let lost = |code| matches!(check("a test", code), Err(BackendError::Device { lost: true, .. }));
        assert!([4, 46, 214, 220, 226, 700, 702, 709, 719, 721, 911, 999, 1234].map(lost).iter().all(|l| *l));
        assert!(![1, 2, 209, 222, 400, 701, 801, 900].map(lost).iter().any(|l| *l));
    }

    #[test]
    fn a_driver_that_does_not_start_says_what_to_do() {
        let said = |code| check_start("starting the driver", code).expect_err("a failure").to_string();
        assert!(
            said(803).starts_with("cuda: starting the driver failed: ")
                && said(803).contains("restart the machine")
        );
        assert!(said(999).contains("nvidia-uvm") && !said(999).contains("lost"), "{}", said(999));
    }
}
