//! A GPU of Apple silicon as the host side of `lamina-gpu` wants it.

use crate::{
    commands::MetalCommands,
    error::{MetalUnusable, NAME, Opened, failed},
    kernels::MetalKernels,
    memory::{MetalBuffer, memory},
};
use candle_core::Device;
use candle_metal_kernels::metal::{ComputeCommandEncoder, Device as SystemDevice};
use lamina_base::available_memory;
use lamina_gpu::{Bound, DeviceInfo, GpuDevice, Launch};
use lamina_plan::backend::Result;
use objc2_metal::MTLSize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A GPU of Apple silicon; clones are the same device with the same queue.
#[derive(Clone)]
pub struct MetalGpu {
    commands: Arc<MetalCommands>,
    kernels: Arc<MetalKernels>,
    /// Launches since a recording began.
    recorded: Arc<Mutex<Option<Vec<RecordedLaunch>>>>,
}

/// Launches that run again as they were; they hold their buffers.
pub struct MetalRecording(Vec<RecordedLaunch>);

struct RecordedLaunch {
    kernel: String,
    grid: [u32; 3],
    bound: Vec<(MetalBuffer, usize, bool)>,
    args: Vec<u8>,
}

impl MetalGpu {
    /// Opens the first device, and compiles the kernels for it.
    ///
    /// # Errors
    /// When the system is too old, there is no device, or Metal's compiler refuses the kernels.
    pub fn open() -> Opened<MetalGpu> {
        if !objc2::available!(macos = 15.0) {
            return Err(MetalUnusable::OldSystem);
        }
        // candle takes the first of this list without a look whether there is one.
        if SystemDevice::all().is_empty() {
            return Err(MetalUnusable::NoDevice);
        }
        let device = Device::new_metal(0).map_err(failed)?;
        let device = device.as_metal_device().map_err(failed)?.clone();
        let kernels = Arc::new(MetalKernels::compile(device.metal_device())?);
        Ok(MetalGpu { commands: Arc::new(MetalCommands::new(device)), kernels, recorded: Arc::default() })
    }

    fn recording(&self) -> MutexGuard<'_, Option<Vec<RecordedLaunch>>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses what cannot be recorded.
    fn idle(&self) -> Result<()> {
        let idle = self.recording().is_none();
        idle.then_some(()).ok_or_else(|| failed("copies cannot be recorded"))
    }

    fn encode(&self, launch: &Launch<'_, MetalBuffer>) -> Result<()> {
        let kernel = self.kernels.get(launch.kernel);
        let kernel = kernel.ok_or_else(|| failed(format!("there is no kernel {}", launch.kernel)))?;
        let commands = self.commands.compute()?;
        let encoder: &ComputeCommandEncoder = commands.as_ref();
        encoder.set_compute_pipeline_state(&kernel.pipeline);
        for (i, bound) in launch.bound.iter().enumerate() {
            let buffer = Some(bound.buffer.bound(bound.at));
            if bound.writes {
                encoder.set_output_buffer(i, buffer, bound.at);
            } else {
                encoder.set_input_buffer(i, buffer, bound.at);
            }
        }
        // Copied by the call.
        encoder.set_bytes_directly(launch.bound.len(), launch.args.len(), launch.args.as_ptr().cast());
        let [width, height, depth] = launch.grid.map(|n| n as usize);
        let threads = MTLSize { width: kernel.threads as usize, height: 1, depth: 1 };
        encoder.dispatch_thread_groups(MTLSize { width, height, depth }, threads);
        Ok(())
    }
}

impl RecordedLaunch {
    fn new(launch: &Launch<'_, MetalBuffer>) -> RecordedLaunch {
        RecordedLaunch {
            kernel: launch.kernel.to_owned(),
            grid: launch.grid,
            bound: launch.bound.iter().map(|b| (b.buffer.clone(), b.at, b.writes)).collect(),
            args: launch.args.to_vec(),
        }
    }

    fn run(&self, device: &MetalGpu) -> Result<()> {
        let bound = self.bound.iter().map(|(buffer, at, writes)| Bound { buffer, at: *at, writes: *writes });
        let bound: Vec<_> = bound.collect();
        device.encode(&Launch { kernel: &self.kernel, grid: self.grid, bound: &bound, args: &self.args })
    }
}

impl GpuDevice for MetalGpu {
    type Buffer = MetalBuffer;
    type Graph = MetalRecording;

    const NAME: &'static str = NAME;

    fn info(&self) -> DeviceInfo {
        let (free, total) = memory(&self.commands);
        // It shares the host's memory.
        let free = available_memory().map_or(free, |host| host.min(free));
        let kernels = self.commands.device.metal_device().architecture_name();
        DeviceInfo { device: NAME.to_owned(), kernels, free, total }
    }

    fn alloc(&self, bytes: usize, what: &str) -> Result<MetalBuffer> {
        MetalBuffer::new(self.commands.clone(), bytes, what)
    }

    fn upload(&self, to: &MetalBuffer, at: usize, bytes: &[u8]) -> Result<()> {
        self.idle()?;
        to.upload(at, bytes)
    }

    fn download(&self, from: &MetalBuffer, at: usize, out: &mut [u8]) -> Result<()> {
        self.idle()?;
        from.download(at, out)
    }

    fn copy(&self, buffer: &MetalBuffer, from: usize, to: usize, bytes: usize) -> Result<()> {
        self.idle()?;
        buffer.copy(from, to, bytes)
    }

    fn clear(&self, buffer: &MetalBuffer, at: usize, bytes: usize) -> Result<()> {
        self.idle()?;
        buffer.clear(at, bytes)
    }

    fn launch(&self, launch: &Launch<'_, MetalBuffer>) -> Result<()> {
        match &mut *self.recording() {
            Some(recorded) => {
                recorded.push(RecordedLaunch::new(launch));
                Ok(())
            }
            None => self.encode(launch),
        }
    }

    fn capture(&self) -> Result<()> {
        *self.recording() = Some(vec![]);
        Ok(())
    }

    fn captured(&self) -> Result<MetalRecording> {
        let recorded = self.recording().take();
        recorded.map(MetalRecording).ok_or_else(|| failed("nothing is recorded"))
    }

    fn replay(&self, graph: &MetalRecording) -> Result<()> {
        graph.0.iter().try_for_each(|launch| launch.run(self))
    }

    fn wait(&self) -> Result<()> {
        self.commands.wait()
    }
}
