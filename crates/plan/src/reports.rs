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

    /// Bytes per second that the device reads from its memory, measured now; none where it cannot be measured.
    ///
    /// # Errors
    /// When there is no memory to read.
    fn read_bandwidth(&self) -> Result<Option<f64>> {
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
