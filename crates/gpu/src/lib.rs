//! Floor 4 and a half: the host side of GPU backends, over any [`GpuDevice`], and the kernels (`kernels/*.h`).
//!
//! [`Gpu`] is a backend: it repacks weights, keeps slots, pages and states in a device's memory, sends each step as one
//! table, and turns operators into launches. A device allocates, copies and launches kernels by name. The kernels are
//! written in one dialect for CUDA, MSL and a C++ compiler, so that tests run the very same lines on a CPU.
#![forbid(unsafe_code)]

mod args;
mod backend;
mod constants;
mod device;
mod format;
mod golden;
mod graphs;
mod half_rows;
mod host_panels;
mod kernels;
mod kv;
mod machine;
mod ops;
mod queue;
mod samples;
mod scratch;
mod self_test;
mod source;
mod staging;
mod step;
mod tensor;
mod tensor_pages;
mod weight;

pub use backend::Gpu;
pub use device::{Bound, DeviceInfo, GpuDevice, Launch, ProductUnits};
pub use golden::{golden_hashes, golden_text, kernel_hashes};
pub use kernels::{KernelLine, SOURCES, compared_kernels, kernels, launched_kernels, tensor_kernels};
pub use self_test::{self_test, self_test_within};
pub use source::{first_error, kernel_source};
