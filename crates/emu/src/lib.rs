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
