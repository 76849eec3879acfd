//! NVIDIA's run-time compiler, for devices without an image in the build.

use crate::{
    error::{CudaUnusable, Opened},
    part::KernelPart,
};
use cudarc::nvrtc::sys::{self, nvrtcResult};
use lamina_gpu::first_error;
use std::{
    ffi::{CStr, CString, c_char},
    ptr,
};

/// Every function of the library that is called: the bindings panic where one is missing.
const SYMBOLS: &[&str] = &[
    "nvrtcVersion",
    "nvrtcGetErrorString",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcCompileProgram",
    "nvrtcGetProgramLogSize",
    "nvrtcGetProgramLog",
    "nvrtcGetCUBINSize",
    "nvrtcGetCUBIN",
];

/// How kernels are compiled, here and for the wheel: contraction would round otherwise than the emulator does.
pub(crate) const OPTIONS: &[&str] = &["--std=c++17", "--fmad=false", "-default-device"];

/// The compiler.
pub(crate) struct Nvrtc {
    /// Its major and minor version.
    pub version: (i32, i32),
}

/// A program, until it is dropped.
struct NvrtcProgram(sys::nvrtcProgram);

impl Drop for NvrtcProgram {
    fn drop(&mut self) {
        // SAFETY: created by `compile`, destroyed once.
        let _ = unsafe { sys::nvrtcDestroyProgram(&raw mut self.0) };
    }
}

impl Nvrtc {
    /// The compiler, if it is installed where libraries are looked for.
    pub fn find() -> Option<Nvrtc> {
        // SAFETY: loading the library runs its initializers, as every program that uses it does.
        if !unsafe { sys::is_culib_present() } {
            return None;
        }
        // SAFETY: as above; the library was found just now.
        let library = unsafe { sys::culib() };
        let found = |name: &&str| {
            // SAFETY: the function is looked up only: nothing calls it by this type.
            unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok()
        };
        let (mut major, mut minor) = (0, 0);
        if !SYMBOLS.iter().all(found) {
            return None;
        }
        // SAFETY: the library writes two numbers.
        let asked = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
        (asked == nvrtcResult::NVRTC_SUCCESS).then_some(Nvrtc { version: (major, minor) })
    }

    /// The image of a part of `source` for an architecture such as `sm_90`.
    pub fn compile(&self, source: &str, architecture: &str, part: KernelPart) -> Opened<Vec<u8>> {
        let failed = |why| CudaUnusable::NoKernels { architecture: architecture.to_owned(), why };
        let text = CString::new(source).map_err(|e| failed(e.to_string()))?;
        let none = ptr::null();
        let mut program = NvrtcProgram(ptr::null_mut());
        // SAFETY: the text lives until the program is destroyed; there are no headers beside it.
        let created = unsafe {
            let name = c"kernels.cu".as_ptr();
            sys::nvrtcCreateProgram(&raw mut program.0, text.as_ptr(), name, 0, none, none)
        };
        said(created).map_err(failed)?;
        let target = format!("--gpu-architecture={architecture}");
        let options = OPTIONS.iter().copied().chain([part.option(), target.as_str()]);
        let options: Vec<CString> = options.map(|o| CString::new(o).unwrap_or_default()).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: the program is a live one; the options live until the call returns.
        let done = unsafe { sys::nvrtcCompileProgram(program.0, pointers.len() as i32, pointers.as_ptr()) };
        said(done).map_err(|why| failed(program.first_error().unwrap_or(why)))?;
        program.image().map_err(failed)
    }
}

impl NvrtcProgram {
    /// The first error that the compiler found.
    fn first_error(&self) -> Option<String> {
        let mut bytes = 0;
        // SAFETY: the program is a live one; the library writes one number.
        said(unsafe { sys::nvrtcGetProgramLogSize(self.0, &raw mut bytes) }).ok()?;
        let mut log = vec![0u8; bytes];
        // SAFETY: the library writes as many bytes as it said.
        said(unsafe { sys::nvrtcGetProgramLog(self.0, log.as_mut_ptr().cast()) }).ok()?;
        let log = String::from_utf8_lossy(&log);
        first_error(&log).map(|error| format!("they did not compile: {error}"))
    }

    fn image(&self) -> Result<Vec<u8>, String> {
        let mut bytes = 0;
        // SAFETY: the program is a live one; the library writes one number.
        said(unsafe { sys::nvrtcGetCUBINSize(self.0, &raw mut bytes) })?;
        let mut image = vec![0u8; bytes];
        // SAFETY: the library writes as many bytes as it said.
        said(unsafe { sys::nvrtcGetCUBIN(self.0, image.as_mut_ptr().cast()) })?;
        Ok(image)
    }
}

/// The library's answer, a failure in its own words.
fn said(outcome: nvrtcResult) -> Result<(), String> {
    if outcome == nvrtcResult::NVRTC_SUCCESS {
        return Ok(());
    }
    // SAFETY: the library gives a text of its own for every code.
    let words = unsafe { CStr::from_ptr(sys::nvrtcGetErrorString(outcome)) };
    Err(format!("NVRTC says: {}", words.to_string_lossy()))
}
