//! Floor 5: the CPU backend - a plan's operators over the kernels of `lamina-kernels`, weights in panels of interleaved rows,
//! paged attention, own threads.

mod backend;
mod bandwidth;
mod expert_rows;
mod kv;
mod machine;
mod matrix;
mod memory;
mod ops;
mod queue;
mod ropes;
mod row_softmax;
mod sizes;
mod tasks;
mod weight;

pub use backend::{Cpu, CpuError};
pub use bandwidth::read_bandwidth;
pub use lamina_pool::Pool;
