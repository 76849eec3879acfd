//! Kernels on the device: an image's functions by name.

use crate::{
    context::CudaContext,
    error::{Opened, check},
    image::KernelImage,
    sys,
};
use lamina_gpu::ProductUnits;
use std::{collections::HashMap, ffi::CString, ptr, sync::Arc};

/// Bytes of shared memory from which on it decides how many blocks run on a multiprocessor.
const MUCH_SHARED: i32 = 16 << 10;

/// A function of an image, and the threads of its blocks.
#[derive(Clone, Copy)]
pub(crate) struct CudaFunction {
    pub handle: sys::CUfunction,
    pub threads: u32,
}

/// An image on the device.
pub(crate) struct LoadedKernels {
    context: Arc<CudaContext>,
    module: sys::CUmodule,
    functions: HashMap<&'static str, CudaFunction>,
}

// SAFETY: module and functions belong to the context, and may be used on any thread that it is set on.
unsafe impl Send for LoadedKernels {}
// SAFETY: as above; nothing changes after loading.
unsafe impl Sync for LoadedKernels {}

impl LoadedKernels {
    /// Loads an image, and finds every kernel of its parts that is there for such tensor cores.
    pub fn load(
        context: Arc<CudaContext>,
        image: &KernelImage,
        units: ProductUnits,
    ) -> Opened<LoadedKernels> {
        context.bind()?;
        let mut module = ptr::null_mut();
        // SAFETY: the context is current; the image is a whole one, which its length says to the driver by itself, and the
        // driver has copied what it wants of it when it returns.
        check("loading the kernels", unsafe { sys::cuModuleLoadData(&raw mut module, image.start()) })?;
        // From here on, `drop` cleans up.
        let mut own = LoadedKernels { context, module, functions: HashMap::new() };
        for line in image.parts.iter().flat_map(|part| part.kernels(units)) {
            let name = CString::new(line.name).unwrap_or_default();
            let mut handle = ptr::null_mut();
            // SAFETY: the context is current; name and module live; the driver writes one handle.
            let found = unsafe { sys::cuModuleGetFunction(&raw mut handle, own.module, name.as_ptr()) };
            check(format_args!("finding the kernel {}", line.name), found)?;
            prefer_shared(handle);
            own.functions.insert(line.name, CudaFunction { handle, threads: line.threads });
        }
        Ok(own)
    }

    pub fn get(&self, name: &str) -> Option<CudaFunction> {
        self.functions.get(name).copied()
    }
}

/// Where blocks take much shared memory, asks for as much of the first cache as can be that: by its default the driver may leave
/// room for one block alone. What it refuses costs speed and nothing else.
fn prefer_shared(function: sys::CUfunction) {
    let mut bytes = 0;
    // SAFETY: the function is one of a live module, whose context is current; the driver writes one number.
    let asked = unsafe { sys::cuFuncGetAttribute(&raw mut bytes, sys::SHARED_BYTES, function) };
    if asked == sys::SUCCESS && bytes >= MUCH_SHARED {
        // SAFETY: as above.
        let _ = unsafe { sys::cuFuncSetAttribute(function, sys::SHARED_CARVEOUT, 100) };
    }
}

impl Drop for LoadedKernels {
    fn drop(&mut self) {
        // Functions that are under way are waited for; of a lost device nothing can be done.
        if self.context.wait().is_ok() {
            // SAFETY: loaded by `load`, unloaded once; whatever uses its functions keeps it alive.
            let _ = unsafe { sys::cuModuleUnload(self.module) };
        }
    }
}
