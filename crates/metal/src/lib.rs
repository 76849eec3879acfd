//! Floor 5: GPUs of Apple silicon. A [`lamina_gpu::GpuDevice`] over candle's Metal device, which has the queue, the encoders
//! and the barriers between launches; the kernels are those of `lamina-gpu`, compiled by Metal when the device is opened.
//!
//! Type-checked on other systems; it has not run on a Mac yet.
#![cfg(target_os = "macos")]

mod commands;
mod device;
mod error;
mod kernels;
mod memory;

pub use device::{MetalGpu, MetalRecording};
pub use error::MetalUnusable;
pub use memory::MetalBuffer;
