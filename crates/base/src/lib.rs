//! Floor 0: the words every other crate speaks - element types, host tensors, bytes that may be a mapped file.
#![forbid(unsafe_code)]

mod bytes;
mod dtype;
pub mod formula;
mod memory;
mod tensor;

pub use bytes::Bytes;
pub use dtype::{DType, UnknownDType};
pub use memory::{available_memory, human_bytes, peak_rss, total_memory};
pub use tensor::{HostTensor, ShapeError};
