//! NVIDIA's driver: is it there, does it have all that is called, is it new enough. Asked once.

use crate::error::{CudaUnusable, Opened, check};
use cudarc::driver::sys::{self, CUresult};
use std::sync::OnceLock;

/// Every function of the driver that is called. The bindings load each at its first use and panic where it is missing:
/// looked up together, a missing one is an error before anything happens.
const SYMBOLS: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventDestroy_v2",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuLaunchKernel",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
];

/// The version of CUDA that the images are made for, by its first minor version: any driver of 12.0 or later loads them.
const NEEDED: i32 = 12000;

/// Loads the driver; the version of CUDA that it knows.
pub(crate) fn load() -> Opened<i32> {
    static DRIVER: OnceLock<Opened<i32>> = OnceLock::new();
    DRIVER.get_or_init(found).clone()
}

fn found() -> Opened<i32> {
    // SAFETY: loading the driver's library runs its initializers, as every program that uses it does.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaUnusable::NoDriver);
    }
    // SAFETY: as above; the library was found just now.
    let library = unsafe { sys::culib() };
    for &name in SYMBOLS {
        // SAFETY: the function is looked up only: nothing calls it by this type.
        if unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_err() {
            return Err(CudaUnusable::MissingSymbol(name));
        }
    }
    let mut version = 0;
    // SAFETY: the driver writes one number.
    check("asking for the driver's version", unsafe { sys::cuDriverGetVersion(&raw mut version) })?;
    if version < NEEDED {
        return Err(CudaUnusable::OldDriver(version));
    }
    // SAFETY: every program begins with this call; further ones do nothing.
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_ERROR_NO_DEVICE => Err(CudaUnusable::NoDevice { number: 0, count: 0 }),
        outcome => Ok(check("starting the driver", outcome).map(|()| version)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path};

    /// A call of a function that is not looked up before would panic on a driver without it.
    #[test]
    fn every_function_that_is_called_is_looked_up() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut called = 0;
        for file in fs::read_dir(sources).expect("the sources") {
            let text = fs::read_to_string(file.expect("a file").path()).expect("a text");
            for part in text.split("sys::cu").skip(1) {
                let name =
                    part.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
                if name.starts_with(char::is_uppercase) {
                    called += 1;
                    assert!(SYMBOLS.contains(&format!("cu{name}").as_str()), "cu{name}");
                }
            }
        }
        assert!(called >= SYMBOLS.len() - 2, "{called} calls");
    }
}
