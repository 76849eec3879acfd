//! Floor 5: NVIDIA GPUs. A [`lamina_gpu::GpuDevice`] over the driver's API, which is loaded when a device is first opened.
//!
//! Nothing is linked: a machine without the driver gets one clear line. Kernels come as images for known architectures,
//! put into the build by whoever sets `LAMINA_CUBINS`; otherwise NVRTC compiles them, once for each source and architecture.

mod context;
mod copies;
mod device;
mod driver;
mod energy;
mod error;
mod golden_kernels;
mod graph;
mod image;
mod kernels;
mod library;
mod memory;
mod nvrtc;
mod part;
mod pinned;
mod staging;
mod stamps;
mod sys;

#[cfg(all(test, target_os = "linux"))]
#[path = "../tests/alone/mod.rs"]
mod alone;

pub use device::{CudaDevice, CudaFacts};
pub use energy::joules;
pub use error::CudaUnusable;
pub use graph::CudaGraph;
pub use image::ImageOrigin;
pub use memory::CudaBuffer;
