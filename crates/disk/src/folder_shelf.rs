//! Entries that outlive the process: a folder, and what waits to be written there.

use crate::{
    cache_key::CacheKey,
    counts::StoreCounts,
    entry::{Entry, Key, Unwritten},
    entry_store::{EntryShelf, EntryStore},
    error::DiskError,
    folder::StoreFolder,
    queue::JobQueue,
    read_queue::WantedEntry,
    reporter::{Reporter, news},
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Smallest budget.
const LEAST: u64 = 1 << 20;
/// Most bytes that wait; what comes then is dropped.
const MOST_WAITING: usize = 256 << 20;

/// A store whose entries outlive the process, in a folder that other processes may use too. Dropping it writes what waits.
pub type PageStore = EntryStore<FolderShelf>;

/// A folder of entries, and those that wait to be written.
#[derive(Debug)]
pub struct FolderShelf {
    path: PathBuf,
    folder: StoreFolder,
    budget: u64,
    report: Reporter,
    writes: Arc<JobQueue<Unwritten, FolderUse>>,
}

/// What happened so far, and bytes of entries that wait or are being written.
#[derive(Debug, Default)]
struct FolderUse {
    counts: StoreCounts,
    waiting_bytes: usize,
    /// Entries that were taken in, and those of them that wait no more.
    taken: u64,
    ended: u64,
    /// The last of them could not be written.
    refused: bool,
}

impl EntryStore<FolderShelf> {
    /// The store in `path`, which keeps at most `budget` bytes. `report` hears a line for each damaged entry, and of a
    /// disk that refuses.
    ///
    /// A folder that can be read alone is read, and nothing is added to it. With a `key`, entries are those that were signed
    /// with it.
    ///
    /// # Errors
    /// When the folder cannot be made or read, or the budget is below 1 MiB.
    pub fn open(
        path: &Path,
        budget: u64,
        key: Option<CacheKey>,
        report: Reporter,
    ) -> Result<PageStore, DiskError> {
        if budget < LEAST {
            return Err(DiskError::Budget { bytes: budget });
        }
        let failed = |source| DiskError::Folder { folder: path.into(), source };
        let folder = StoreFolder::open(path).map_err(failed)?.signed_by(key);
        if !folder.is_writable() {
            let path = path.display();
            report.line(&format!(
                "{path}: the folder of the prefix cache can only be read: nothing is added to it"
            ));
        }
        let writes = JobQueue::new();
        EntryStore::start(FolderShelf { path: path.into(), folder, budget, report, writes }).map_err(failed)
    }

    /// False where entries can be read, and none be added.
    pub fn is_writable(&self) -> bool {
        self.shelf.folder.is_writable()
    }

    /// True when there is an entry called `key`, whole or not.
    pub fn contains(&self, key: &Key) -> bool {
        self.shelf.folder.contains(key)
    }

    /// True when `bytes` more may wait to be written.
    pub fn room(&self, bytes: usize) -> bool {
        self.is_writable() && self.shelf.writes.lock().shared.has_room(bytes)
    }

    /// Entries that were taken in so far.
    pub fn taken(&self) -> u64 {
        self.shelf.writes.lock().shared.taken
    }

    /// True when none of the first so many entries that were taken in waits: each can be read, or could not be written.
    pub fn has_ended(&self, taken: u64) -> bool {
        self.shelf.writes.lock().shared.ended >= taken
    }

    /// True where the last entry that was to be written could not be.
    pub fn refuses(&self) -> bool {
        self.shelf.writes.lock().shared.refused
    }

    /// What happened so far.
    pub fn counts(&self) -> StoreCounts {
        self.shelf.writes.lock().shared.counts.clone()
    }
}

impl EntryShelf for FolderShelf {
    const WRITER: &'static str = "lamina-writes";

    fn put(&self, entry: Unwritten) -> bool {
        let len = entry.len();
        self.folder.is_writable()
            && self.writes.update(|jobs| {
                let taken = jobs.shared.take_in(len);
                jobs.waiting.extend(taken.then_some(entry));
                taken
            })
    }

    fn read(&self, wanted: &WantedEntry) -> Option<Entry> {
        let found = self.folder.read(&wanted.key);
        if let Err(damage) = &found {
            let name: String = wanted.key.iter().map(|b| format!("{b:02x}")).collect();
            let folder = self.path.display();
            self.report.line(&format!(
                "{folder}: entry {name} of the prefix cache was damaged ({damage}) and is not used"
            ));
        }
        let counts = &mut self.writes.lock().shared.counts;
        counts.damaged += u64::from(found.is_err());
        let entry = found.ok().flatten().filter(|entry| entry.proof() == wanted.proof);
        counts.hits += u64::from(entry.is_some());
        counts.misses += u64::from(entry.is_none());
        counts.read_bytes += entry.as_ref().map_or(0, |entry| entry.bytes().len() as u64);
        entry
    }

    fn write_all(&self) {
        let mut bytes = self.folder.prune(self.budget);
        while let Some(unwritten) = self.writes.take(|_| true) {
            let entry = self.folder.entry(&unwritten);
            let len = entry.bytes().len() as u64;
            if bytes + len > self.budget {
                // Other processes write and remove here too: the folder itself says what it holds.
                bytes = self.folder.prune(self.budget.saturating_sub(len));
            }
            let result = match len > self.budget {
                true => Err(io::Error::other("it alone is larger than the budget")),
                false => self.folder.write(&entry),
            };
            bytes += if let Ok(true) = result { len } else { 0 };
            let failure = self.writes.ended(|used| used.end_write(&unwritten, len, result));
            if let Some(failure) = failure {
                self.report.line(&format!("an entry of the prefix cache could not be written: {failure}"));
            }
        }
    }

    fn flush(&self) {
        self.writes.flush();
    }

    fn close(&self) {
        self.writes.close();
    }
}

impl FolderUse {
    fn has_room(&self, bytes: usize) -> bool {
        self.waiting_bytes + bytes <= MOST_WAITING
    }

    /// Counts an entry that is to be written; false where too much waits.
    fn take_in(&mut self, bytes: usize) -> bool {
        let room = self.has_room(bytes);
        self.waiting_bytes += if room { bytes } else { 0 };
        self.taken += u64::from(room);
        self.counts.dropped += u64::from(!room);
        room
    }

    /// Counts what became of an entry; returns a failure that is news.
    fn end_write(&mut self, unwritten: &Unwritten, len: u64, result: io::Result<bool>) -> Option<String> {
        self.waiting_bytes -= unwritten.len();
        self.ended += 1;
        self.refused = result.is_err();
        let counts = &mut self.counts;
        let written = u64::from(matches!(result, Ok(true)));
        counts.written += written;
        counts.written_bytes += written * len;
        counts.dropped += u64::from(result.is_err());
        result.err().and_then(|e| news(&mut counts.failure, e.to_string()))
    }
}
