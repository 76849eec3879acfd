//! An emulated GPU for tests: the kernels of `crates/gpu`, compiled as C++, on the CPU.
//!
//! Threads of a block are fibers, so that barriers and shuffles mean what they mean on a device. It proves logic, indices
//! and the order of sums, of the kernels and of the whole host side; it says nothing about speed.
#![cfg(target_os = "linux")]

mod device;
mod launch;
mod memory;

pub use device::{BlockOrder, Emu};
pub use launch::EmuGraph;
pub use memory::EmuBuffer;

/// A folder with a `libcuda.so` over the emulator, and an NVRTC for it (`fake_cuda/driver.cpp` says how it fails on demand).
pub const FAKE_CUDA: &str = env!("LAMINA_FAKE_CUDA");

/// A folder with a `libnvidia-ml.so.1` whose devices take energy.
pub const FAKE_NVML: &str = env!("LAMINA_FAKE_NVML");

/// A folder with a `libcuda.so` that lacks what is called today.
pub const OLD_CUDA: &str = env!("LAMINA_OLD_CUDA");
