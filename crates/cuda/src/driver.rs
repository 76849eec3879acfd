//! NVIDIA's driver: is it there, does it have all that is called, is it new enough. Asked once.

use crate::{
    error::{CudaUnusable, Opened, check_start},
    library::{self, names},
    sys,
};
use std::sync::OnceLock;

/// The version of CUDA that the images are made for, by its first minor version: any driver of 12.0 or later loads them.
const NEEDED: i32 = 12000;

/// Loads the driver; the version of CUDA that it knows.
pub(crate) fn load() -> Opened<i32> {
    static DRIVER: OnceLock<Opened<i32>> = OnceLock::new();
    DRIVER.get_or_init(found).clone()
}

fn found() -> Opened<i32> {
    let library = library::open(names(&["libcuda.so", "libcuda.so.1"], &["nvcuda.dll"]));
    sys::load(library.ok_or(CudaUnusable::NoDriver)?).map_err(CudaUnusable::MissingSymbol)?;
    let mut version = 0;
    // SAFETY: the driver writes one number.
    check_start("asking for the driver's version", unsafe { sys::cuDriverGetVersion(&raw mut version) })?;
    if version < NEEDED {
        return Err(CudaUnusable::OldDriver(version));
    }
    // SAFETY: every program begins with this call; further ones do nothing.
    match unsafe { sys::cuInit(0) } {
        sys::NO_DEVICE => Err(CudaUnusable::NoDevice { number: 0, count: 0 }),
        outcome => check_start("starting the driver", outcome).map(|()| version),
    }
}
