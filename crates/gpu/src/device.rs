//! What a GPU does for the host side: memory, copies, launches, recordings.

use lamina_base::Bytes;
use lamina_plan::backend::Result;
use std::time::Duration;

/// What a device says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its name as users write it, such as `cuda:0`.
    pub device: String,
    /// What its kernels are made for, such as `sm_90`.
    pub kernels: String,
    /// Bytes that can be had now.
    pub free: u64,
    /// Bytes that there are.
    pub total: u64,
}

/// What multiplies matrices, and queries by keys. It is a fact of a device: all products of a device are of one kind, whatever
/// the batch, so that their bits are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProductUnits {
    /// Chains of fma (`kernels/product.h`).
    #[default]
    Fma,
    /// Tensor cores (`kernels/tensor.h`, `kernels/attend_tensor.h`), for the types of weights and pages that they know, and
    /// chains of fma for the others.
    TensorCores,
    /// Tensor cores that know float16 and no bfloat16, as before compute capability 8.0: bfloat16 is multiplied by chains of fma.
    Float16Cores,
}

/// A buffer of a launch: where it begins, and whether the kernel writes to it.
pub struct Bound<'a, B> {
    /// The buffer.
    pub buffer: &'a B,
    /// First byte.
    pub at: usize,
    /// True when the kernel writes to it; devices without streams order launches by it.
    pub writes: bool,
}

impl<B> Clone for Bound<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Bound<'_, B> {}

impl<'a, B> Bound<'a, B> {
    /// A buffer that the kernel reads from byte `at` on.
    pub fn read(buffer: &'a B, at: usize) -> Self {
        Bound { buffer, at, writes: false }
    }

    /// A buffer that the kernel writes, or reads and writes, from byte `at` on.
    pub fn write(buffer: &'a B, at: usize) -> Self {
        Bound { buffer, at, writes: true }
    }
}

/// One launch of a kernel.
pub struct Launch<'a, B> {
    /// Its name in the list of kernels, which says the threads of a block.
    pub kernel: &'a str,
    /// Blocks on three axes, none of them 0.
    pub grid: [u32; 3],
    /// Buffers in the order of the kernel's parameters.
    pub bound: &'a [Bound<'a, B>],
    /// The struct behind them, byte for byte.
    pub args: &'a [u8],
}

/// A GPU, or what stands for one. Work runs in the order in which it is asked for and may be under way when a call returns;
/// [`GpuDevice::download`] and [`GpuDevice::wait`] return when it is done.
///
/// Every method fails when the device does.
#[allow(clippy::missing_errors_doc)] // stated above for all
pub trait GpuDevice: Clone + Send + Sync + 'static {
    /// Memory on the device; given back when it is dropped.
    type Buffer: Send + Sync;
    /// Recorded launches, which can be run again.
    type Graph: Send + Sync;

    /// Name of the backend in messages, such as `cuda`.
    const NAME: &'static str;

    /// Device, kernels and memory.
    fn info(&self) -> DeviceInfo;

    /// What multiplies matrices on it.
    fn products(&self) -> ProductUnits {
        ProductUnits::default()
    }

    /// `bytes` bytes for `what`, with anything in them.
    fn alloc(&self, bytes: usize, what: &str) -> Result<Self::Buffer>;

    /// Copies bytes to the device; they may change once it returns.
    fn upload(&self, to: &Self::Buffer, at: usize, bytes: &[u8]) -> Result<()>;

    /// Pins memory of the host that [`GpuDevice::send`] copies from, until [`GpuDevice::unpin`]; false where that cannot be.
    fn pin(&self, _bytes: &Bytes) -> bool {
        false
    }

    /// The end of [`GpuDevice::pin`], once nothing copies from there any more.
    fn unpin(&self, _bytes: &Bytes) {}

    /// Begins to copy bytes to the device beside the work that is under way, behind the last [`GpuDevice::release`] of
    /// `slot`, a small number. Work does not wait for them until [`GpuDevice::arrive`]. A device with one queue copies them
    /// in turn.
    fn send(&self, _slot: usize, to: &Self::Buffer, at: usize, bytes: &Bytes) -> Result<()> {
        self.upload(to, at, bytes)
    }

    /// Returns when what was sent for `slot` is there: its bytes are held no longer.
    fn settle(&self, _slot: usize) -> Result<()> {
        Ok(())
    }

    /// Work that is asked for from now on begins when what was sent for `slot` is there.
    fn arrive(&self, _slot: usize) -> Result<()> {
        Ok(())
    }

    /// Work that is asked for from now on reads nothing of what was sent for `slot`.
    fn release(&self, _slot: usize) -> Result<()> {
        Ok(())
    }

    /// Copies bytes from the device, behind all work before.
    fn download(&self, from: &Self::Buffer, at: usize, out: &mut [u8]) -> Result<()>;

    /// Copies `bytes` bytes inside a buffer; the two places do not overlap.
    fn copy(&self, buffer: &Self::Buffer, from: usize, to: usize, bytes: usize) -> Result<()>;

    /// Puts zeros into `bytes` bytes from `at` on.
    fn clear(&self, buffer: &Self::Buffer, at: usize, bytes: usize) -> Result<()>;

    /// Gets kernels that no plan launches ([`crate::compared_kernels`]), where it has them apart, so that they can be launched
    /// from now on.
    ///
    /// # Errors
    /// One line that says why it has none of them. Its other kernels are as they were.
    fn load_compared(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Runs a kernel, or only notes it while recording.
    fn launch(&self, launch: &Launch<'_, Self::Buffer>) -> Result<()>;

    /// Begins to record launches instead of running them.
    fn capture(&self) -> Result<()>;

    /// Ends the recording.
    fn captured(&self) -> Result<Self::Graph>;

    /// Runs what was recorded.
    fn replay(&self, graph: &Self::Graph) -> Result<()>;

    /// Returns when all work is done.
    fn wait(&self) -> Result<()>;

    /// Has the device's clock note when the work before is done, as [`lamina_plan::op::Queue::stamp`]; false where it has none.
    fn stamp(&self, _at: usize) -> Result<bool> {
        Ok(false)
    }

    /// Times from stamp 0 to each of the first `count`, which have come.
    fn stamps(&self, _count: usize, out: &mut Vec<Duration>) -> Result<()> {
        out.clear();
        Ok(())
    }
}
