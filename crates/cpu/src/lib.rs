//! Floor 5: the CPU backend - panels of interleaved rows, kernels per instruction set, paged attention, own threads.

mod act;
mod bandwidth;
mod format;
mod kernel;
mod kv;
mod machine;
mod memory;
mod ops;
mod queue;
mod weight;

pub use bandwidth::read_bandwidth;
pub use lamina_pool::Pool;
pub use machine::{Cpu, CpuError};
