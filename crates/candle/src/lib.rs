//! A plain backend over candle's tensors: a second oracle on candle's CPU device, and what a Mac's GPU runs with.
//!
//! Its kernels are candle's own operations (products, reductions, look-ups), put together to the operators of a plan;
//! nothing is shared with the reference interpreter but the contract. Rows stay apart: whatever sums over numbers gets one
//! row at a time, or sums inside a row, so that a row's result depends on no other row of the batch. That is slow for
//! prompts, and right on every device that candle has.
#![forbid(unsafe_code)]

mod backend;
mod error;
mod machine;
mod math;
mod ops;
mod pool;
mod queue;
mod weight;

pub use backend::Candle;
pub use weight::MatrixForm;
