//! What a backend says of itself, for messages and reports.

use crate::error::Result;

/// A device, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The device that a backend runs on, such as `cpu` or `cuda:0`.
    pub device: String,
    /// What its kernels are made for: an instruction set, or the architecture of a GPU.
    pub kernels: String,
    /// Host threads that it keeps.
    pub threads: usize,
}

/// What kernels gave for fixed operands, beside the bits that they should give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelBits {
    /// Kernels that were run.
    pub compared: usize,
    /// Names of those whose bits differ.
    pub differ: Vec<String>,
    /// Those that could not be run.
    pub left_out: Option<LeftOutKernels>,
}

/// Kernels that a device does not have beside those that plans launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutKernels {
    /// Their names.
    pub names: Vec<String>,
    /// Why it has none of them, in one line.
    pub why: String,
}

/// How fast a device reads its memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadSpeed {
    /// Bytes per second.
    pub rate: f64,
    /// What gave them.
    pub source: ReadSource,
}

/// What answered the reads of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadSource {
    /// Memory: more was read than caches hold.
    Memory,
    /// Caches may have: so little memory was free that only these bytes were read. The memory is no faster.
    Caches(u64),
}

impl ReadSpeed {
    /// Bytes per second of memory.
    pub fn of_memory(rate: f64) -> ReadSpeed {
        ReadSpeed { rate, source: ReadSource::Memory }
    }

    /// Bytes per second, if it was memory that was read.
    pub fn memory_rate(self) -> Option<f64> {
        (self.source == ReadSource::Memory).then_some(self.rate)
    }
}

/// What a backend says of itself, for messages and reports.
pub trait Reports {
    /// Name in messages and reports, such as `cpu`.
    fn name(&self) -> &'static str;

    /// Device, kernels and threads.
    fn about(&self) -> About {
        About { device: self.name().to_owned(), kernels: self.name().to_owned(), threads: 1 }
    }

    /// Names what computes which row and how pages lie, for pages that outlive the process.
    fn identity(&self) -> String {
        let About { device, kernels, threads: _ } = self.about();
        format!("{device} {kernels}")
    }

    /// How fast the device reads its memory, measured now; none where it cannot be measured.
    ///
    /// # Errors
    /// When there is no memory to read.
    fn read_bandwidth(&self) -> Result<Option<ReadSpeed>> {
        Ok(None)
    }

    /// Runs the kernels whose bits are the same on every device that works, and compares these with the bits that are kept;
    /// none where none are kept.
    ///
    /// # Errors
    /// When the device fails.
    fn kernel_bits(&self) -> Result<Option<KernelBits>> {
        Ok(None)
    }
}
