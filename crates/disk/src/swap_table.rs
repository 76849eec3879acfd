//! What a swap store holds, and where: in memory, in memory on the way to its file, or in the file.

use crate::{
    buffer::{BLOCK, PageBuffer},
    direct::DirectFile,
    entry::{Entry, Key},
    extents::FreeExtents,
    queue::JobQueue,
    read_queue::WantedEntry,
    reporter::Reporter,
    swap_use::{MOST_WAITING, SwapBudget, SwapRate, SwapUse},
    write_queue::Unwritten,
};
use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long is waited for a disk that has too much to write already. It writes more than [`MOST_WAITING`] in that time, or
/// is not worth waiting for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where an entry is.
#[derive(Debug, Clone)]
enum SwapHome {
    Memory(Arc<Unwritten>),
    /// On its way to a range of the file.
    Waiting(Arc<Unwritten>, Range<u64>),
    /// Being written: its range belongs to the writer, so that nobody takes it when the entry is removed.
    Writing(Arc<Unwritten>),
    File(Range<u64>),
}

#[derive(Debug)]
struct SwapEntry {
    /// Tells entries apart that had the same name one after the other.
    serial: u64,
    home: SwapHome,
}

#[derive(Debug, Default)]
struct SwapEntries {
    entries: HashMap<Key, SwapEntry>,
    free: FreeExtents,
    serials: u64,
    waiting_bytes: u64,
    /// Reads of the file that go on, and since when there are any.
    reading: (u32, Option<Instant>),
    used: SwapUse,
}

/// Entries of a swap store, shared with its threads.
#[derive(Debug)]
pub(crate) struct SwapTable {
    held: Mutex<SwapEntries>,
    changed: Condvar,
    /// Entries that are to be written, with their serial numbers; some may be gone.
    writes: Arc<JobQueue<(Key, u64)>>,
    file: Option<DirectFile>,
    budget: SwapBudget,
    report: Reporter,
}

/// An entry that is to be written.
struct SwapWrite {
    key: Key,
    serial: u64,
    entry: Arc<Unwritten>,
    range: Range<u64>,
}

impl SwapTable {
    /// An empty table. `rates` are the speeds of writing and reading that were measured before.
    pub fn new(
        file: Option<DirectFile>,
        budget: SwapBudget,
        report: Reporter,
        rates: [SwapRate; 2],
    ) -> SwapTable {
        let [written, read] = rates;
        let free =
            FreeExtents::new(if file.is_some() { budget.disk / BLOCK as u64 * BLOCK as u64 } else { 0 });
        let used = SwapUse { written, read, ..SwapUse::default() };
        let held = Mutex::new(SwapEntries { free, used, ..SwapEntries::default() });
        SwapTable { held, changed: Condvar::new(), writes: JobQueue::new(), file, budget, report }
    }

    fn lock(&self) -> MutexGuard<'_, SwapEntries> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an entry in; false when there is no room for it.
    pub fn put(&self, key: Key, entry: Unwritten) -> bool {
        let len = entry.entry_len() as u64;
        let mut held = self.lock();
        if held.entries.contains_key(&key) {
            return true;
        }
        let entry = Arc::new(entry);
        let home = match held.used.memory_bytes + len <= self.budget.memory {
            true => {
                held.used.memory_bytes += len;
                Some(SwapHome::Memory(entry))
            }
            false => {
                held = self.wait_for_room(held, len);
                held.reserve(len).map(|range| SwapHome::Waiting(entry, range))
            }
        };
        let Some(home) = home else {
            held.used.refused += 1;
            return false;
        };
        held.serials += 1;
        let serial = held.serials;
        if let SwapHome::Waiting(..) = home {
            self.writes.put((key, serial));
        }
        held.entries.insert(key, SwapEntry { serial, home });
        true
    }

    /// Waits until `len` more bytes may wait for the disk.
    fn wait_for_room<'a>(&self, held: MutexGuard<'a, SwapEntries>, len: u64) -> MutexGuard<'a, SwapEntries> {
        let full = |held: &mut SwapEntries| held.waiting_bytes > 0 && held.waiting_bytes + len > MOST_WAITING;
        let waited = self.changed.wait_timeout_while(held, PATIENCE, full);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Lets go of an entry.
    pub fn remove(&self, key: &Key) {
        let mut held = self.lock();
        let entry = held.entries.remove(key);
        entry.into_iter().for_each(|entry| held.release(entry.home));
        self.changed.notify_all();
    }

    /// Writes entries until the store is closed.
    pub fn write_all(&self) {
        while let Some((key, serial)) = self.writes.take(|()| true) {
            if let Some(write) = self.begin_write(key, serial) {
                self.write(write);
            }
            self.writes.ended(|()| ());
        }
    }

    /// Takes the range of an entry that is to be written; none where nobody wants it any more.
    fn begin_write(&self, key: Key, serial: u64) -> Option<SwapWrite> {
        let mut held = self.lock();
        let kept = held.entries.get_mut(&key).filter(|kept| kept.serial == serial)?;
        let SwapHome::Waiting(entry, range) = kept.home.clone() else { return None };
        kept.home = SwapHome::Writing(entry.clone());
        Some(SwapWrite { key, serial, entry, range })
    }

    /// Writes an entry, and lets go of its copy in memory.
    fn write(&self, write: SwapWrite) {
        let SwapWrite { key, serial, entry, range } = write;
        let begin = Instant::now();
        let written = self.file.as_ref().map(|file| {
            let entry = entry.entry(&key);
            let mut buffer = PageBuffer::new(entry.bytes().len());
            buffer.bytes_mut()[..entry.bytes().len()].copy_from_slice(entry.bytes());
            file.write_blocks(range.start, buffer.bytes())
        });
        let len = range.end - range.start;
        let mut held = self.lock();
        held.waiting_bytes -= len;
        held.used.waiting_bytes = held.waiting_bytes;
        let wanted = held.entries.get(&key).is_some_and(|kept| kept.serial == serial);
        match written.transpose() {
            Ok(_) if wanted => {
                held.used.written.note(len, begin.elapsed());
                held.entries.insert(key, SwapEntry { serial, home: SwapHome::File(range) });
            }
            Ok(_) => held.give_back(range),
            Err(e) => {
                held.give_back(range);
                if wanted {
                    held.entries.remove(&key);
                }
                self.failed(&mut held, format!("a swapped page could not be written: {e}"));
            }
        }
        self.changed.notify_all();
    }

    /// The entry that is wanted; none where it is not there, or was damaged.
    pub fn read(&self, wanted: &WantedEntry) -> Option<Entry> {
        let mut held = self.lock();
        let SwapEntry { serial, home } = held.entries.get(&wanted.key)?;
        let (serial, home) = (*serial, home.clone());
        let entry = match home {
            SwapHome::Memory(entry) | SwapHome::Waiting(entry, _) | SwapHome::Writing(entry) => {
                drop(held);
                entry.entry(&wanted.key)
            }
            SwapHome::File(range) => {
                held.begin_read();
                drop(held);
                self.read_range(&wanted.key, serial, range)?
            }
        };
        (entry.proof() == wanted.proof).then_some(entry)
    }

    fn read_range(&self, key: &Key, serial: u64, range: Range<u64>) -> Option<Entry> {
        let file = self.file.as_ref()?;
        let len = range.end - range.start;
        let mut buffer = PageBuffer::new(len as usize);
        let read = file.read_blocks(range.start, buffer.bytes_mut()).map_err(|e| e.to_string());
        let entry = read.and_then(|()| {
            Entry::read(key, buffer.bytes()[..len as usize].to_vec()).map_err(|damage| damage.to_string())
        });
        let mut held = self.lock();
        held.end_read(len);
        // What was removed meanwhile may have been written over.
        if held.entries.get(key).is_none_or(|kept| kept.serial != serial) {
            return None;
        }
        entry
            .map_err(|problem| {
                held.entries.remove(key);
                held.give_back(range);
                held.used.damaged += 1;
                self.failed(
                    &mut held,
                    format!("a swapped page was damaged ({problem}) and is computed again"),
                );
            })
            .ok()
    }

    /// Notes a failure, and tells one that is not the last one again.
    fn failed(&self, held: &mut SwapEntries, failure: String) {
        if held.used.failure.as_ref() != Some(&failure) {
            self.report.line(&failure);
        }
        held.used.failure = Some(failure);
    }

    /// Waits until nothing is to be written.
    pub fn flush(&self) {
        self.writes.flush();
    }

    pub fn close(&self) {
        self.writes.abandon();
    }

    pub fn used(&self) -> SwapUse {
        let held = self.lock();
        let file_bytes = match &self.file {
            Some(_) => self.budget.disk / BLOCK as u64 * BLOCK as u64 - held.free.bytes(),
            None => 0,
        };
        SwapUse { file_bytes, entries: held.entries.len(), ..held.used.clone() }
    }
}

impl SwapEntries {
    /// A range of the file for `len` bytes, which wait to be written there.
    fn reserve(&mut self, len: u64) -> Option<Range<u64>> {
        if self.waiting_bytes > 0 && self.waiting_bytes + len > MOST_WAITING {
            return None;
        }
        let offset = self.free.take(len.next_multiple_of(BLOCK as u64))?;
        self.waiting_bytes += len;
        self.used.waiting_bytes = self.waiting_bytes;
        Some(offset..offset + len)
    }

    fn release(&mut self, home: SwapHome) {
        match home {
            SwapHome::Memory(entry) => self.used.memory_bytes -= entry.entry_len() as u64,
            SwapHome::Writing(_) => {}
            SwapHome::Waiting(_, range) => {
                self.waiting_bytes -= range.end - range.start;
                self.used.waiting_bytes = self.waiting_bytes;
                self.give_back(range);
            }
            SwapHome::File(range) => self.give_back(range),
        }
    }

    fn give_back(&mut self, range: Range<u64>) {
        self.free.give(range.start, (range.end - range.start).next_multiple_of(BLOCK as u64));
    }

    fn begin_read(&mut self) {
        self.reading.0 += 1;
        self.reading.1.get_or_insert_with(Instant::now);
    }

    /// Time in which several threads read counts once: the rate is that of the disk.
    fn end_read(&mut self, bytes: u64) {
        self.reading.0 -= 1;
        let now = Instant::now();
        let since = self.reading.1.replace(now).unwrap_or(now);
        self.used.read.note(bytes, now - since);
        if self.reading.0 == 0 {
            self.reading.1 = None;
        }
    }
}
