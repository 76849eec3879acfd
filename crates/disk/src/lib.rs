//! Floor 10: what outlives a process - a content-addressed store of cache pages on disk.
//!
//! An entry is one file that is written beside its place and renamed: it is whole or absent, whenever a process is
//! killed. Several processes may share a folder: nobody locks, since entries never change and a name says what is in
//! them. What a power failure, a full disk or a bad sector leaves behind fails its checksum, and is a miss.
#![forbid(unsafe_code)]

mod entry;
mod error;
mod evict;
mod folder;
mod page_store;
mod write_queue;

pub use entry::{Damage, Entry, Key};
pub use error::DiskError;
pub use folder::{Folder, Stored};
pub use page_store::{PageStore, StoreCounts};
