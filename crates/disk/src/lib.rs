//! Floor 10: what outlives a process - a content-addressed store of cache pages on disk.
//!
//! An entry is one file that is written beside its place and renamed: it is whole or absent, whenever a process is
//! killed. Several processes may share a folder: nobody locks, since entries never change and a name says what is in
//! them. What a power failure, a full disk or a bad sector leaves behind fails its checksum, and is a miss.
#![forbid(unsafe_code)]

mod counts;
mod entry;
mod error;
mod evict;
mod folder;
mod page_store;
mod read_queue;
mod write_queue;

pub use counts::{Report, StoreCounts};
pub use entry::{Damage, Entry, Key};
pub use error::DiskError;
pub use evict::StoredEntry;
pub use folder::StoreFolder;
pub use page_store::PageStore;
pub use read_queue::{Arrival, Fetch, WantedEntry};
pub use write_queue::Unwritten;
