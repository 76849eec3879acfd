//! Energy that devices took, as the driver's management library tells it (NVML).

use crate::{
    library::{self, names},
    sys as driver,
};
use std::{
    ffi::c_char,
    ptr,
    sync::{Mutex, OnceLock, PoisonError},
};

/// The library's functions that are called, as its manual declares them.
mod sys {
    use crate::library::functions;
    use std::ffi::{c_char, c_int, c_ulonglong, c_void};

    /// The library's answer; 0 where all went well.
    pub type Code = c_int;
    pub type Handle = *mut c_void;

    functions! {
        Code, -1;
        fn nvmlInit_v2();
        fn nvmlDeviceGetHandleByPciBusId_v2(bus: *const c_char, device: *mut Handle);
        fn nvmlDeviceGetTotalEnergyConsumption(device: Handle, millijoules: *mut c_ulonglong);
    }
}

/// Bytes of the name of a device on its bus, with room for longer ones to come.
const BUS_NAME: usize = 32;

/// Devices that this process has open.
static OPEN: Mutex<Vec<driver::CUdevice>> = Mutex::new(Vec::new());

/// A device was opened.
pub(crate) fn opened(device: driver::CUdevice) {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(device);
}

/// It was closed.
pub(crate) fn closed(device: driver::CUdevice) {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(at) = open.iter().position(|d| *d == device) {
        open.swap_remove(at);
    }
}

/// Joules that the devices which this process has open took since their driver was loaded, for all programs; none where it
/// has none open. A device that is open twice counts once.
///
/// # Errors
/// Why it is not known.
pub fn joules() -> Result<Option<f64>, String> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    open.sort_unstable();
    open.dedup();
    if open.is_empty() {
        return Ok(None);
    }
    load()?;
    open.into_iter().map(of_device).sum::<Result<f64, String>>().map(Some)
}

/// Loads the library, once.
fn load() -> Result<(), String> {
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    let load = || {
        let library = library::open(names(&["libnvidia-ml.so.1", "libnvidia-ml.so"], &["nvml.dll"]));
        let library = library.ok_or("the driver's management library (NVML) is not there")?;
        sys::load(library).map_err(|name| format!("the driver's management library has no {name}"))?;
        // SAFETY: every program begins with this call.
        said("starting it", unsafe { sys::nvmlInit_v2() })
    };
    LOADED.get_or_init(load).clone()
}

/// Joules of a device.
fn of_device(device: driver::CUdevice) -> Result<f64, String> {
    let mut bus = [0 as c_char; BUS_NAME];
    // The two libraries number devices differently; the place on the bus is the same.
    // SAFETY: the driver writes a text with its end into as many bytes as it is told.
    let asked = unsafe { driver::cuDeviceGetPCIBusId(bus.as_mut_ptr(), BUS_NAME as i32, device) };
    if asked != 0 {
        return Err(format!("the driver does not tell where the device is (code {asked})"));
    }
    let mut handle = ptr::null_mut();
    // SAFETY: the text ends within its bytes; the library writes one handle.
    let found = unsafe { sys::nvmlDeviceGetHandleByPciBusId_v2(bus.as_ptr(), &raw mut handle) };
    said("finding the device", found)?;
    let mut millijoules = 0;
    // SAFETY: the handle is the library's; it writes one number.
    let told = unsafe { sys::nvmlDeviceGetTotalEnergyConsumption(handle, &raw mut millijoules) };
    said("asking for its energy", told)?;
    Ok(millijoules as f64 / 1e3)
}

/// The library's answer in words.
fn said(what: &str, code: sys::Code) -> Result<(), String> {
    match code {
        0 => Ok(()),
        3 => Err(format!("{what}: the device does not support it")),
        4 => Err(format!("{what}: NVML does not permit it")),
        code => Err(format!("{what}: NVML answers {code}")),
    }
}
