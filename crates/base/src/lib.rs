//! Floor ½: the words every other crate speaks - element types, number types of caches, host tensors, bytes in memory or in a file.
#![forbid(unsafe_code)]

mod bytes;
mod cpu;
mod dtype;
pub mod files;
pub mod formula;
mod kv;
mod memory;
mod mmproj_name;
mod page_buffer;
pub mod scalar;
mod secret_key;
mod storage;
mod tensor;
mod threads;

pub use bytes::Bytes;
pub use cpu::cpu_name;
pub use dtype::{DType, UnknownDType};
pub use kv::{KvType, KvTypes, PAGE_LEN, UnknownKvType};
pub use memory::{available_memory, human_bytes, peak_rss, resident_memory, total_memory};
pub use mmproj_name::mmproj_rank;
pub use page_buffer::{BLOCK, PageBuffer};
pub use secret_key::SecretKey;
pub use storage::{BytesFile, ReadError, StoredBytes, zeros};
pub use tensor::{HostTensor, ShapeError};
pub use threads::{on_threads, startable};
