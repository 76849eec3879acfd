//! An NVIDIA GPU as the host side of `lamina-gpu` wants it.

use crate::{
    context::CudaContext,
    copies::CopyStream,
    error::{CudaUnusable, NAME, Opened, check},
    golden_kernels::load_compared,
    graph::CudaGraph,
    image::{ImageOrigin, KernelImage, OLDEST, units_of},
    kernels::{CudaFunction, LoadedKernels},
    memory::CudaBuffer,
    pinned,
    staging::Staging,
    stamps::Stamps,
    sys,
};
use lamina_base::Bytes;
use lamina_gpu::{DeviceInfo, GpuDevice, Launch, ProductUnits, compared_kernels};
use lamina_plan::{BackendError, backend::Result};
use std::{
    ffi::c_void,
    ptr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

/// Most blocks of a grid on its second and third axis.
const MOST_BLOCKS: u32 = 65535;

/// Bytes that graphs of steps may take, which the driver allocates by itself.
const GRAPHS: u64 = 64 << 20;

/// What is known of an opened device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaFacts {
    /// Its number.
    pub number: usize,
    /// Its name in its maker's words.
    pub name: String,
    /// Its architecture, such as `sm_90`.
    pub architecture: String,
    /// Where the kernels came from.
    pub origin: ImageOrigin,
    /// Bytes of memory that there are.
    pub total: u64,
}

/// An NVIDIA GPU; clones are the same device with the same stream.
#[derive(Clone)]
pub struct CudaDevice {
    /// Made when weights are sent first.
    copies: Arc<Mutex<Option<CopyStream>>>,
    staging: Arc<Mutex<Staging>>,
    stamps: Arc<Mutex<Stamps>>,
    kernels: Arc<LoadedKernels>,
    /// Kernels that no plan launches, or why there are none; made when they are first asked for.
    compared: Arc<OnceLock<std::result::Result<LoadedKernels, String>>>,
    context: Arc<CudaContext>,
    facts: Arc<CudaFacts>,
    units: ProductUnits,
}

impl CudaDevice {
    /// Devices that the driver finds, whether or not they can be used.
    ///
    /// # Errors
    /// When there is no driver, or it is too old.
    pub fn count() -> Opened<usize> {
        CudaContext::count()
    }

    /// Opens device `number` and loads the kernels for it.
    ///
    /// # Errors
    /// When there is no driver, no such device, it is too old, or there are no kernels for it.
    pub fn open(number: usize) -> Opened<CudaDevice> {
        let context = CudaContext::open(number)?;
        let (name, capability) = (context.name()?, context.capability()?);
        if capability < OLDEST {
            return Err(CudaUnusable::OldDevice { name, capability });
        }
        let image = KernelImage::of(capability)?;
        let units = units_of(capability);
        let kernels = Arc::new(LoadedKernels::load(context.clone(), &image, units)?);
        let staging = Arc::new(Mutex::new(Staging::new(context.clone())?));
        let stamps = Arc::new(Mutex::new(Stamps::new(context.clone())));
        let (architecture, origin) = (format!("sm_{capability}"), image.origin);
        let total = context.memory()?.1;
        let facts = Arc::new(CudaFacts { number, name, architecture, origin, total });
        let compared = Arc::default();
        Ok(CudaDevice { copies: Arc::default(), staging, stamps, kernels, compared, context, facts, units })
    }

    /// What is known of it.
    pub fn facts(&self) -> &CudaFacts {
        &self.facts
    }

    /// A kernel, of those that are there by now.
    fn function(&self, kernel: &str) -> Option<CudaFunction> {
        let compared = || self.compared.get()?.as_ref().ok()?.get(kernel);
        self.kernels.get(kernel).or_else(compared)
    }

    /// The stream of copies.
    fn with_copies<T>(&self, f: impl FnOnce(&mut CopyStream) -> Result<T>) -> Result<T> {
        self.idle()?;
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *copies {
            Some(copies) => f(copies),
            none => f(none.insert(CopyStream::new(self.context.clone())?)),
        }
    }

    /// Refuses what cannot be recorded.
    fn idle(&self) -> Result<()> {
        if self.context.is_recording() {
            Err(failed("copies cannot be recorded".into()))
        } else {
            self.context.bind()
        }
    }
}

fn failed(what: String) -> BackendError {
    BackendError::Device { backend: NAME, what, lost: false }
}

/// Bytes of a struct as words, so that it is aligned for any field.
fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |part: &[u8]| {
        let mut whole = [0; 8];
        whole[..part.len()].copy_from_slice(part);
        u64::from_ne_bytes(whole)
    };
    bytes.chunks(8).map(word).collect()
}

impl GpuDevice for CudaDevice {
    type Buffer = CudaBuffer;
    type Graph = CudaGraph;

    const NAME: &'static str = NAME;

    fn info(&self) -> DeviceInfo {
        // A lost device has no memory to give.
        let free = self.context.memory().map_or(0, |(free, _)| free);
        DeviceInfo {
            device: format!("{NAME}:{}", self.facts.number),
            kernels: self.facts.architecture.clone(),
            free: free.saturating_sub(GRAPHS),
            total: self.facts.total,
        }
    }

    fn products(&self) -> ProductUnits {
        self.units
    }

    fn alloc(&self, bytes: usize, what: &str) -> Result<CudaBuffer> {
        CudaBuffer::new(self.context.clone(), bytes, what)
    }

    fn upload(&self, to: &CudaBuffer, at: usize, bytes: &[u8]) -> Result<()> {
        self.idle()?;
        let place = to.place(at..at + bytes.len());
        self.staging.lock().unwrap_or_else(PoisonError::into_inner).upload(place, bytes)
    }

    fn pin(&self, bytes: &Bytes) -> bool {
        self.context.bind().is_ok() && pinned::register(bytes)
    }

    fn unpin(&self, bytes: &Bytes) {
        // Of a lost device everything is unpinned.
        if self.context.bind().is_ok() {
            pinned::unregister(bytes);
        }
    }

    fn send(&self, slot: usize, to: &CudaBuffer, at: usize, bytes: &Bytes) -> Result<()> {
        let place = to.place(at..at + bytes.len());
        self.with_copies(|copies| copies.send(slot, place, bytes))
    }

    fn settle(&self, slot: usize) -> Result<()> {
        self.with_copies(|copies| copies.settle(slot))
    }

    fn arrive(&self, slot: usize) -> Result<()> {
        self.with_copies(|copies| copies.arrive(slot))
    }

    fn release(&self, slot: usize) -> Result<()> {
        self.with_copies(|copies| copies.release(slot))
    }

    fn download(&self, from: &CudaBuffer, at: usize, out: &mut [u8]) -> Result<()> {
        self.idle()?;
        let place = from.place(at..at + out.len());
        self.staging.lock().unwrap_or_else(PoisonError::into_inner).download(place, out)
    }

    fn copy(&self, buffer: &CudaBuffer, from: usize, to: usize, bytes: usize) -> Result<()> {
        self.idle()?;
        let (from, to) = (buffer.place(from..from + bytes), buffer.place(to..to + bytes));
        // SAFETY: the context is current; both places are inside the buffer.
        let copied = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.context.stream()) };
        check("copying on the device", copied)
    }

    fn clear(&self, buffer: &CudaBuffer, at: usize, bytes: usize) -> Result<()> {
        self.idle()?;
        let place = buffer.place(at..at + bytes);
        // The driver refuses to set nothing.
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the context is current; the bytes are inside the buffer.
        check("clearing memory", unsafe { sys::cuMemsetD8Async(place, 0, bytes, self.context.stream()) })
    }

    fn load_compared(&self) -> std::result::Result<(), String> {
        // The text for devices newer than all images has them.
        if compared_kernels(self.units).all(|line| self.kernels.get(line.name).is_some()) {
            return Ok(());
        }
        let load = || load_compared(&self.context, &self.facts.architecture, self.units);
        self.compared.get_or_init(load).as_ref().map(|_| ()).map_err(String::clone)
    }

    fn launch(&self, launch: &Launch<'_, CudaBuffer>) -> Result<()> {
        let Launch { kernel, grid: [x, y, z], .. } = *launch;
        let function = self.function(kernel).ok_or_else(|| failed(format!("there is no kernel {kernel}")))?;
        if y.max(z) > MOST_BLOCKS {
            return Err(failed(format!(
                "kernel {kernel} over {y} x {z} rows of blocks: at most {MOST_BLOCKS}"
            )));
        }
        self.context.bind()?;
        let mut addresses: Vec<u64> = launch.bound.iter().map(|b| b.buffer.address(b.at)).collect();
        let mut args = words(launch.args);
        let buffers = addresses.iter_mut().map(|a| ptr::from_mut(a).cast::<c_void>());
        let mut parameters: Vec<*mut c_void> = buffers.chain([args.as_mut_ptr().cast::<c_void>()]).collect();
        let (threads, stream) = (function.threads, self.context.stream());
        // SAFETY: the context is current. The parameters live until the call returns, which copies them. They are those of
        // the kernel: the emulator counts them in the tests of every operator. The host side gives buffers that hold what
        // the kernel reads and writes.
        let launched = unsafe {
            let (list, none) = (parameters.as_mut_ptr(), ptr::null_mut());
            sys::cuLaunchKernel(function.handle, x, y, z, threads, 1, 1, 0, stream, list, none)
        };
        check(format_args!("launching the kernel {kernel}"), launched)
    }

    fn capture(&self) -> Result<()> {
        self.context.begin_recording()
    }

    fn captured(&self) -> Result<CudaGraph> {
        CudaGraph::recorded(self.context.clone(), self.kernels.clone())
    }

    fn replay(&self, graph: &CudaGraph) -> Result<()> {
        graph.launch()
    }

    fn wait(&self) -> Result<()> {
        self.context.wait()
    }

    fn stamp(&self, at: usize) -> Result<bool> {
        self.idle()?;
        self.stamps.lock().unwrap_or_else(PoisonError::into_inner).stamp(at).map(|()| true)
    }

    fn stamps(&self, count: usize, out: &mut Vec<Duration>) -> Result<()> {
        self.stamps.lock().unwrap_or_else(PoisonError::into_inner).times(count, out)
    }
}
