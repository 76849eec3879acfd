//! NVIDIA's run-time compiler, for devices without an image in the build.

use crate::{
    error::{CudaUnusable, Opened},
    library,
    part::KernelPart,
};
use lamina_gpu::first_error;
use std::{
    ffi::{CStr, CString, c_char},
    path::PathBuf,
    ptr,
    sync::OnceLock,
};

/// The library's functions that are called, as its manual declares them.
mod sys {
    use crate::library::functions;
    use std::ffi::{c_char, c_int, c_void};

    /// The library's answer; 0 where all went well.
    pub type Code = c_int;
    pub type Program = *mut c_void;

    functions! {
        Code, -1;
        fn nvrtcVersion(major: *mut c_int, minor: *mut c_int);
        fn nvrtcCreateProgram(program: *mut Program, source: *const c_char, name: *const c_char, headers: c_int, texts: *const *const c_char, names: *const *const c_char);
        fn nvrtcDestroyProgram(program: *mut Program);
        fn nvrtcCompileProgram(program: Program, count: c_int, options: *const *const c_char);
        fn nvrtcGetProgramLogSize(program: Program, bytes: *mut usize);
        fn nvrtcGetProgramLog(program: Program, text: *mut c_char);
        fn nvrtcGetCUBINSize(program: Program, bytes: *mut usize);
        fn nvrtcGetCUBIN(program: Program, image: *mut c_char);
    }
}

/// What gives the library's words for a code.
// SAFETY: the type of a pointer; whoever calls it keeps to the library's manual.
type ErrorText = unsafe extern "system" fn(sys::Code) -> *const c_char;

/// How kernels are compiled, here and for the wheel: contraction would round otherwise than the emulator does.
pub(crate) const OPTIONS: &[&str] = &["--std=c++17", "--fmad=false", "-default-device"];

/// The compiler.
#[derive(Clone)]
pub(crate) struct Nvrtc {
    /// Its major and minor version.
    pub version: (i32, i32),
    error_text: ErrorText,
}

/// A program, until it is dropped.
struct NvrtcProgram<'a>(sys::Program, &'a Nvrtc);

/// Names and paths of the library, in the order in which they are tried.
fn candidates() -> Vec<PathBuf> {
    let windows = &["nvrtc64_120_0.dll", "nvrtc64_130_0.dll"];
    let names = library::names(&["libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.13"], windows);
    let beside = library::package_folders();
    let beside = beside.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
    names.iter().cloned().chain(beside).collect()
}

impl Drop for NvrtcProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: created by `compile`, destroyed once.
        let _ = unsafe { sys::nvrtcDestroyProgram(&raw mut self.0) };
    }
}

impl Nvrtc {
    /// The compiler, if it is where the system looks for libraries, or came by pip beside this package.
    pub fn find() -> Option<Nvrtc> {
        static FOUND: OnceLock<Option<Nvrtc>> = OnceLock::new();
        FOUND.get_or_init(|| Nvrtc::load(candidates())).clone()
    }

    fn load(candidates: Vec<PathBuf>) -> Option<Nvrtc> {
        let library = sys::load(library::open(candidates)?).ok()?;
        // SAFETY: the library's manual gives the function this type, and the library stays.
        let error_text = *unsafe { library.get::<ErrorText>("nvrtcGetErrorString") }.ok()?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the library writes two numbers.
        let asked = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
        (asked == 0).then_some(Nvrtc { version: (major, minor), error_text })
    }

    /// The library's answer, a failure in its own words.
    fn said(&self, outcome: sys::Code) -> Result<(), String> {
        if outcome == 0 {
            return Ok(());
        }
        // SAFETY: the library gives a text of its own for every code.
        let words = unsafe { CStr::from_ptr((self.error_text)(outcome)) };
        Err(format!("NVRTC says: {}", words.to_string_lossy()))
    }

    /// The image of a part of `source` for an architecture such as `sm_90`.
    pub fn compile(&self, source: &str, architecture: &str, part: KernelPart) -> Opened<Vec<u8>> {
        let failed = |why| CudaUnusable::NoKernels { architecture: architecture.to_owned(), why };
        let text = CString::new(source).map_err(|e| failed(e.to_string()))?;
        let none = ptr::null();
        let mut program = NvrtcProgram(ptr::null_mut(), self);
        // SAFETY: the text lives until the program is destroyed; there are no headers beside it.
        let created = unsafe {
            let name = c"kernels.cu".as_ptr();
            sys::nvrtcCreateProgram(&raw mut program.0, text.as_ptr(), name, 0, none, none)
        };
        self.said(created).map_err(failed)?;
        let target = format!("--gpu-architecture={architecture}");
        let options = OPTIONS.iter().copied().chain([part.option(), target.as_str()]);
        let options: Vec<CString> = options.map(|o| CString::new(o).unwrap_or_default()).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: the program is a live one; the options live until the call returns.
        let done = unsafe { sys::nvrtcCompileProgram(program.0, pointers.len() as i32, pointers.as_ptr()) };
        self.said(done).map_err(|why| failed(program.first_error().unwrap_or(why)))?;
        program.image().map_err(failed)
    }
}

impl NvrtcProgram<'_> {
    /// The first error that the compiler found.
    fn first_error(&self) -> Option<String> {
        let mut bytes = 0;
        // SAFETY: the program is a live one; the library writes one number.
        self.1.said(unsafe { sys::nvrtcGetProgramLogSize(self.0, &raw mut bytes) }).ok()?;
        let mut log = vec![0u8; bytes];
        // SAFETY: the library writes as many bytes as it said.
        self.1.said(unsafe { sys::nvrtcGetProgramLog(self.0, log.as_mut_ptr().cast()) }).ok()?;
        let log = String::from_utf8_lossy(&log);
        first_error(&log).map(|error| format!("they did not compile: {error}"))
    }

    fn image(&self) -> Result<Vec<u8>, String> {
        let mut bytes = 0;
        // SAFETY: the program is a live one; the library writes one number.
        self.1.said(unsafe { sys::nvrtcGetCUBINSize(self.0, &raw mut bytes) })?;
        let mut image = vec![0u8; bytes];
        // SAFETY: the library writes as many bytes as it said.
        self.1.said(unsafe { sys::nvrtcGetCUBIN(self.0, image.as_mut_ptr().cast()) })?;
        Ok(image)
    }
}
