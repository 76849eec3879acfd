//! Floor 5: the CPU backend - panels of interleaved rows, kernels per instruction set, paged attention, own threads.

mod act;
mod backend;
mod bandwidth;
mod expert_rows;
mod format;
mod kernel;
mod kv;
mod machine;
mod matrix;
mod memory;
mod ops;
mod queue;
mod ropes;
mod row_kernels;
mod row_softmax;
mod sizes;
mod tasks;
mod weight;

pub use backend::{Cpu, CpuError};
pub use bandwidth::read_bandwidth;
pub use lamina_pool::Pool;
