//! A store of entries that outlive the process.

use crate::{
    entry::{Entry, Key},
    error::DiskError,
    folder::Folder,
    write_queue::WriteQueue,
};
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Smallest budget.
const LEAST: u64 = 1 << 20;

/// What happened since a store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Entries that were found.
    pub hits: u64,
    /// Entries that were asked for and are not there.
    pub misses: u64,
    /// Entries that failed their checksum, and are gone.
    pub damaged: u64,
    /// Entries that were written.
    pub written: u64,
    /// Entries that were not, because too many waited or the disk refused.
    pub dropped: u64,
    /// What the disk said last when it refused.
    pub failure: Option<String>,
}

/// Entries by their keys in a folder that other processes may use too.
#[derive(Debug)]
pub struct PageStore {
    path: PathBuf,
    folder: Folder,
    queue: WriteQueue,
    hits: AtomicU64,
    misses: AtomicU64,
    damaged: AtomicU64,
}

impl PageStore {
    /// The store in `path`, which keeps at most `budget` bytes.
    ///
    /// # Errors
    /// When the folder cannot be made or written, or the budget is below 1 MiB.
    pub fn open(path: &Path, budget: u64) -> Result<PageStore, DiskError> {
        if budget < LEAST {
            return Err(DiskError::Budget { bytes: budget });
        }
        let failed = |source| DiskError::Folder { folder: path.into(), source };
        let folder = Folder::open(path).map_err(failed)?;
        let queue = WriteQueue::start(folder.clone(), budget).map_err(failed)?;
        let [hits, misses, damaged] = Default::default();
        Ok(PageStore { path: path.into(), folder, queue, hits, misses, damaged })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True when there is an entry called `key`, whole or not.
    pub fn contains(&self, key: &Key) -> bool {
        self.folder.contains(key)
    }

    /// The entry called `key` that was made of `proof`. A damaged one is removed, and missing.
    pub fn read(&self, key: &Key, proof: &[u8]) -> Option<Entry> {
        let found = self.folder.read(key);
        if found.is_err() {
            self.damaged.fetch_add(1, Relaxed);
        }
        let entry = found.ok().flatten().filter(|entry| entry.proof() == proof);
        if entry.is_some() { &self.hits } else { &self.misses }.fetch_add(1, Relaxed);
        entry
    }

    /// Writes an entry some time later; false when too much waits to be written.
    pub fn write(&self, key: Key, entry: Entry) -> bool {
        self.queue.push(key, entry)
    }

    /// Waits until all entries are written.
    pub fn flush(&self) {
        self.queue.flush();
    }

    /// What happened so far.
    pub fn counts(&self) -> StoreCounts {
        let (written, dropped, failure) = self.queue.counts();
        let [hits, misses, damaged] = [&self.hits, &self.misses, &self.damaged].map(|n| n.load(Relaxed));
        StoreCounts { hits, misses, damaged, written, dropped, failure }
    }
}
