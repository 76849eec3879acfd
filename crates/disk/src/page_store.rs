//! A store of entries that outlive the process.

use crate::{
    counts::StoreCounts,
    entry::{Entry, Key},
    error::DiskError,
    folder::StoreFolder,
    read_queue::{Fetch, ReadQueue, WantedEntry},
    reporter::Reporter,
    write_queue::{Unwritten, WriteQueue},
};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Smallest budget.
const LEAST: u64 = 1 << 20;

/// Entries by their keys in a folder that other processes may use too.
#[derive(Debug)]
pub struct PageStore {
    stored: Arc<StoredEntries>,
    writes: WriteQueue,
    reads: ReadQueue,
}

/// What the reading threads share with the store.
#[derive(Debug)]
struct StoredEntries {
    path: PathBuf,
    folder: StoreFolder,
    report: Reporter,
    hits: AtomicU64,
    read_bytes: AtomicU64,
    misses: AtomicU64,
    damaged: AtomicU64,
}

impl StoredEntries {
    fn read(&self, key: &Key, proof: &[u8]) -> Option<Entry> {
        let found = self.folder.read(key).unwrap_or_else(|damage| {
            self.damaged.fetch_add(1, Relaxed);
            let name: String = key.iter().map(|b| format!("{b:02x}")).collect();
            let folder = self.path.display();
            self.report.line(&format!(
                "{folder}: entry {name} of the prefix cache was damaged ({damage}) and is not used"
            ));
            None
        });
        let entry = found.filter(|entry| entry.proof() == proof);
        match &entry {
            Some(entry) => {
                self.hits.fetch_add(1, Relaxed);
                self.read_bytes.fetch_add(entry.bytes().len() as u64, Relaxed);
            }
            None => _ = self.misses.fetch_add(1, Relaxed),
        }
        entry
    }
}

impl PageStore {
    /// The store in `path`, which keeps at most `budget` bytes. `report` hears a line for each damaged entry, and of a
    /// disk that refuses.
    ///
    /// A folder that can be read alone is read, and nothing is added to it.
    ///
    /// # Errors
    /// When the folder cannot be made or read, or the budget is below 1 MiB.
    pub fn open(path: &Path, budget: u64, report: Reporter) -> Result<PageStore, DiskError> {
        if budget < LEAST {
            return Err(DiskError::Budget { bytes: budget });
        }
        let failed = |source| DiskError::Folder { folder: path.into(), source };
        let folder = StoreFolder::open(path).map_err(failed)?;
        if !folder.is_writable() {
            let path = path.display();
            report.line(&format!(
                "{path}: the folder of the prefix cache can only be read: nothing is added to it"
            ));
        }
        let writes = WriteQueue::start(folder.clone(), budget, report.clone()).map_err(failed)?;
        let [hits, read_bytes, misses, damaged] = Default::default();
        let stored =
            Arc::new(StoredEntries { path: path.into(), folder, report, hits, read_bytes, misses, damaged });
        let theirs = stored.clone();
        let reads = ReadQueue::start(Arc::new(move |w: &WantedEntry| theirs.read(&w.key, &w.proof)));
        Ok(PageStore { stored, writes, reads: reads.map_err(failed)? })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.stored.path
    }

    /// False where entries can be read, and none be added.
    pub fn is_writable(&self) -> bool {
        self.stored.folder.is_writable()
    }

    /// True when there is an entry called `key`, whole or not.
    pub fn contains(&self, key: &Key) -> bool {
        self.stored.folder.contains(key)
    }

    /// The entry called `key` that was made of `proof`. A damaged one is removed, and missing.
    pub fn read(&self, key: &Key, proof: &[u8]) -> Option<Entry> {
        self.stored.read(key, proof)
    }

    /// Begins to read entries, the first one first. Dropping the result gives the rest up.
    pub fn fetch(&self, wanted: Vec<WantedEntry>) -> Fetch {
        self.reads.fetch(wanted)
    }

    /// Waits until an entry of any fetch has come, or for `longest`.
    pub fn wait(&self, longest: Duration) {
        self.reads.wait(longest);
    }

    /// True when `bytes` more may wait to be written.
    pub fn room(&self, bytes: usize) -> bool {
        self.is_writable() && self.writes.room(bytes)
    }

    /// Writes an entry some time later; false when too much waits to be written, or nothing can be.
    pub fn write(&self, key: Key, entry: Unwritten) -> bool {
        self.is_writable() && self.writes.push(key, entry)
    }

    /// Waits until all entries are written.
    pub fn flush(&self) {
        self.writes.flush();
    }

    /// What happened so far.
    pub fn counts(&self) -> StoreCounts {
        let s = &self.stored;
        let [hits, read_bytes, misses, damaged] =
            [&s.hits, &s.read_bytes, &s.misses, &s.damaged].map(|n| n.load(Relaxed));
        let mut counts = StoreCounts { hits, read_bytes, misses, damaged, ..StoreCounts::default() };
        self.writes.count(&mut counts);
        counts
    }
}
