//! A device's context and its stream. Whatever is on the device keeps it alive.

use crate::{
    driver, energy,
    error::{CudaUnusable, Opened, check, check_start},
    sys,
};
use lamina_plan::backend::Result;
use std::{
    ffi::{CStr, c_char},
    mem, ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Streams that do not wait for work of other libraries in the process.
const NON_BLOCKING: u32 = 1;

/// The device's primary context, and the stream that all work of one opened device runs on, in order.
pub(crate) struct CudaContext {
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    recording: Mutex<Recording>,
}

/// Whether launches are recorded, and memory that is given back meanwhile: the driver frees none before the end.
#[derive(Default)]
struct Recording {
    on: bool,
    freed: Vec<u64>,
}

// SAFETY: the handles are names of things inside the driver, which may be used on any thread that the context was set
// on; every method below sets it first. The driver locks for itself.
unsafe impl Send for CudaContext {}
// SAFETY: as above.
unsafe impl Sync for CudaContext {}

impl CudaContext {
    /// Devices that the driver finds.
    pub fn count() -> Opened<usize> {
        driver::load()?;
        let mut count = 0;
        // SAFETY: the driver writes one number.
        check_start("counting the devices", unsafe { sys::cuDeviceGetCount(&raw mut count) })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Opens device `number`.
    pub fn open(number: usize) -> Opened<Arc<CudaContext>> {
        let count = CudaContext::count()?;
        if number >= count {
            return Err(CudaUnusable::NoDevice { number, count });
        }
        let mut device = 0;
        // SAFETY: the driver writes one handle.
        check_start("finding the device", unsafe { sys::cuDeviceGet(&raw mut device, number as i32) })?;
        let mut context = ptr::null_mut();
        // SAFETY: the driver writes one handle; `drop` gives it back.
        let retained = unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut context, device) };
        check_start("opening the device", retained)?;
        // From here on, `drop` cleans up.
        energy::opened(device);
        let mut own = CudaContext { device, context, stream: ptr::null_mut(), recording: Mutex::default() };
        own.bind()?;
        // SAFETY: the context is current; the driver writes one handle.
        let created = unsafe { sys::cuStreamCreate(&raw mut own.stream, NON_BLOCKING) };
        check("making a stream", created)?;
        Ok(Arc::new(own))
    }

    /// Makes the context that of this thread, as every call of the driver wants it.
    pub fn bind(&self) -> Result<()> {
        // SAFETY: the context is retained as long as `self` lives.
        check("entering the device", unsafe { sys::cuCtxSetCurrent(self.context) })
    }

    pub fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// Name of the device, in its maker's words.
    pub fn name(&self) -> Result<String> {
        let mut name = [0 as c_char; 128];
        // SAFETY: the driver writes a text with its end into as many bytes as it is told.
        check("asking for the device's name", unsafe {
            sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, self.device)
        })?;
        let bytes = name.map(|c| c as u8);
        let text = CStr::from_bytes_until_nul(&bytes).map(CStr::to_string_lossy);
        Ok(text.map(|t| t.into_owned()).unwrap_or_default())
    }

    /// Ten times the major number of its compute capability, and the minor one.
    pub fn capability(&self) -> Result<u32> {
        let number = |attribute| -> Result<u32> {
            let mut value = 0;
            // SAFETY: the driver writes one number.
            let asked = unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, self.device) };
            check("asking for the compute capability", asked)?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let major = number(sys::CAPABILITY_MAJOR)?;
        Ok(10 * major + number(sys::CAPABILITY_MINOR)?)
    }

    /// Bytes that can be had now, and bytes that there are.
    pub fn memory(&self) -> Result<(u64, u64)> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is current; the driver writes two numbers.
        let asked = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        check("asking for memory", asked).map(|()| (free as u64, total as u64))
    }

    /// Returns when all work on the stream is done.
    pub fn wait(&self) -> Result<()> {
        self.bind()?;
        // SAFETY: the context is current, the stream its own.
        check("work on the device", unsafe { sys::cuStreamSynchronize(self.stream) })
    }

    /// True while launches are recorded.
    pub fn is_recording(&self) -> bool {
        self.recording().on
    }

    fn recording(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to record launches.
    pub fn begin_recording(&self) -> Result<()> {
        self.bind()?;
        // Other threads may allocate meanwhile: only this one's calls are held against the rules of recordings.
        let mode = sys::CAPTURE_THREAD_LOCAL;
        // SAFETY: the context is current, the stream its own.
        check("beginning a recording", unsafe { sys::cuStreamBeginCapture_v2(self.stream, mode) })?;
        self.recording().on = true;
        Ok(())
    }

    /// Ends the recording; the caller destroys the graph.
    pub fn end_recording(&self) -> Result<sys::CUgraph> {
        // Over in any case: of a lost device it cannot be ended, and copies have to say that it is lost.
        let freed = mem::take(&mut *self.recording()).freed;
        let bound = self.bind();
        let mut graph = ptr::null_mut();
        // SAFETY: the stream is its own, its context current unless the device is lost; the driver writes one handle.
        let ended = unsafe { sys::cuStreamEndCapture(self.stream, &raw mut graph) };
        freed.into_iter().for_each(|address| self.free(address));
        bound.and_then(|()| check("ending a recording", ended)).map(|()| graph)
    }

    /// Gives memory back, behind all work that was asked for: that may use it.
    pub fn free(&self, address: u64) {
        let mut recording = self.recording();
        if recording.on {
            return recording.freed.push(address);
        }
        drop(recording);
        // After a failure the context is lost, and its memory goes with it; to free it is tried all the same.
        let _ = self.wait();
        // SAFETY: the caller's, which frees it once; nothing that is under way uses it.
        let _ = unsafe { sys::cuMemFree_v2(address) };
    }
}

impl Drop for CudaContext {
    fn drop(&mut self) {
        energy::closed(self.device);
        // Of a lost device none of this succeeds, and nothing is left to be done about it.
        if self.bind().is_ok() && !self.stream.is_null() {
            // SAFETY: the stream is its own, and nobody else is left to use it.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.stream) };
        }
        // SAFETY: retained once, when it was opened. The last release destroys the context, a lost one too.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}
