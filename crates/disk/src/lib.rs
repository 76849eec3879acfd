//! Floor 10: what outlives a process, and what does not fit into memory - a content-addressed store of cache pages on
//! disk, and files of weights that are read while they are multiplied with.
//!
//! An entry is one file that is written beside its place and renamed: it is whole or absent, whenever a process is
//! killed. Several processes may share a folder: nobody locks, since entries never change and a name says what is in
//! them. What a power failure, a full disk or a bad sector leaves behind fails its checksum, and is a miss.
//!
//! Unsafe code is the hand-over of buffers to io_uring alone, in `ring.rs`.

mod buffer;
mod cache_file;
mod cache_key;
mod counts;
mod direct;
mod entry;
mod entry_file;
mod entry_store;
mod error;
mod evict;
mod extents;
mod folder;
mod folder_shelf;
mod hotness;
mod in_flight;
mod page_queue;
mod panels;
mod queue;
mod rate;
mod read;
mod read_queue;
mod reader_kind;
mod reader_probe;
mod reporter;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod ring;
mod swap_shelf;
mod swap_table;
mod swap_use;
mod user_folder;
mod whole_file;

pub use buffer::{BLOCK, BufferPool, LentBuffer, PageBuffer};
pub use cache_file::{BlockFile, CacheFile, PageArray};
pub use cache_key::CacheKey;
pub use counts::StoreCounts;
pub use direct::{DirectFile, disk_space};
pub use entry::{Damage, Entry, Key, Unwritten};
pub use entry_file::{EntryFileReader, EntryFileWriter, FileMagic};
pub use entry_store::{EntryShelf, EntryStore};
pub use error::{CachePageError, DiskError, EntryFileError, NoRoom, PanelError};
pub use evict::StoredEntry;
pub use folder::StoreFolder;
pub use folder_shelf::{FolderShelf, PageStore};
pub use hotness::{read_hotness, write_hotness};
pub use in_flight::{DiskJobs, InFlight};
pub use page_queue::{MovedBytes, PageJob, PageQueue, PageTag, PageWay};
pub use panels::{
    KeptPanels, MatrixEntry, MatrixName, PanelAccess, PanelCheck, PanelFile, PanelFolder, PanelRange,
    PanelWriter, WriteWindow, kept_panels, note_sources,
};
pub use rate::read_rate;
pub use read::{DiskReader, Extent, ReadRequest, ReadResult};
pub use read_queue::{Arrival, Fetch, WantedEntry};
pub use reader_kind::{ReaderKind, ReaderRates, faster_reader};
pub use reader_probe::probe_readers;
pub use reporter::Reporter;
pub use swap_shelf::{SwapShelf, SwapStore};
pub use swap_use::{SwapBudget, SwapRate, SwapUse};
pub use user_folder::{UserFolder, cache_folder, user_folder};
pub use whole_file::{WholeFile, replace_file};

/// A checksum of bytes: 64 bits of XXH3.
pub fn checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}
