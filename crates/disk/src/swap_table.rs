//! What a swap store holds, and where: in memory, in memory on the way to its file, or in the file.

use crate::{
    buffer::BLOCK,
    entry::{Entry, Key, Unwritten},
    extents::FreeExtents,
    reporter::news,
    swap_use::{MOST_WAITING, SwapBudget, SwapRate, SwapUse},
};
use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

/// Where an entry is.
#[derive(Debug, Clone)]
pub(crate) enum SwapHome {
    Memory(Arc<Unwritten>),
    /// On its way to a range of the file.
    Waiting(Arc<Unwritten>, Range<u64>),
    /// Being written: its range belongs to the writer, so that nobody takes it when the entry is removed.
    Writing(Arc<Unwritten>),
    File(Range<u64>),
}

/// An entry by its key, and the serial number that tells entries apart that had the same key one after the other.
pub(crate) type SwapName = (Key, u64);

#[derive(Debug)]
struct SwapEntry {
    serial: u64,
    home: SwapHome,
}

/// Entries of a swap store. What moves them has no part in it.
#[derive(Debug)]
pub(crate) struct SwapTable {
    entries: HashMap<Key, SwapEntry>,
    memory: u64,
    file_bytes: u64,
    free: FreeExtents,
    serials: u64,
    /// Reads of the file that go on, and since when there are any.
    reading: (u32, Option<Instant>),
    used: SwapUse,
}

impl SwapTable {
    /// An empty table. `rates` are the speeds of writing and reading that were measured before.
    pub fn new(budget: SwapBudget, [written, read]: [SwapRate; 2]) -> SwapTable {
        let file_bytes = budget.disk / BLOCK as u64 * BLOCK as u64;
        SwapTable {
            entries: HashMap::new(),
            memory: budget.memory,
            file_bytes,
            free: FreeExtents::new(file_bytes),
            serials: 0,
            reading: (0, None),
            used: SwapUse { written, read, ..SwapUse::default() },
        }
    }

    /// True where an entry of `len` bytes has to wait for the disk, which has much to write already.
    pub fn is_full_for(&self, key: &Key, len: u64) -> bool {
        let waits = self.used.waiting_bytes;
        !self.entries.contains_key(key) && !self.fits(len) && waits > 0 && waits + len > MOST_WAITING
    }

    /// True where memory has room for `len` bytes.
    fn fits(&self, len: u64) -> bool {
        self.used.memory_bytes + len <= self.memory
    }

    /// Takes an entry in, and adds it to `writes` where it has to be written; false when there is no room for it.
    pub fn put(&mut self, entry: Unwritten, writes: &mut VecDeque<SwapName>) -> bool {
        let (key, len) = (entry.key, entry.entry_len() as u64);
        if self.entries.contains_key(&key) {
            return true;
        }
        let entry = Arc::new(entry);
        let home = if self.fits(len) {
            self.used.memory_bytes += len;
            SwapHome::Memory(entry)
        } else if let Some(range) = self.reserve(&key, len) {
            SwapHome::Waiting(entry, range)
        } else {
            self.used.refused += 1;
            return false;
        };
        self.serials += 1;
        let serial = self.serials;
        writes.extend(matches!(home, SwapHome::Waiting(..)).then_some((key, serial)));
        self.entries.insert(key, SwapEntry { serial, home });
        true
    }

    /// A range of the file for `len` bytes, which wait to be written there.
    fn reserve(&mut self, key: &Key, len: u64) -> Option<Range<u64>> {
        if self.is_full_for(key, len) {
            return None;
        }
        let offset = self.free.take(len.next_multiple_of(BLOCK as u64))?;
        self.used.waiting_bytes += len;
        Some(offset..offset + len)
    }

    fn give_back(&mut self, range: Range<u64>) {
        self.free.give(range.start, (range.end - range.start).next_multiple_of(BLOCK as u64));
    }

    /// Lets go of an entry.
    pub fn remove(&mut self, key: &Key) {
        match self.entries.remove(key).map(|entry| entry.home) {
            Some(SwapHome::Memory(entry)) => self.used.memory_bytes -= entry.entry_len() as u64,
            Some(SwapHome::Waiting(_, range)) => {
                self.used.waiting_bytes -= range.end - range.start;
                self.give_back(range);
            }
            Some(SwapHome::File(range)) => self.give_back(range),
            Some(SwapHome::Writing(_)) | None => {}
        }
    }

    fn entry(&mut self, (key, serial): &SwapName) -> Option<&mut SwapEntry> {
        self.entries.get_mut(key).filter(|entry| entry.serial == *serial)
    }

    /// Gives the range of an entry to who writes it there; none where nobody wants it any more.
    pub fn begin_write(&mut self, name: &SwapName) -> Option<(Arc<Unwritten>, Range<u64>)> {
        let entry = self.entry(name)?;
        let SwapHome::Waiting(bytes, range) = entry.home.clone() else { return None };
        entry.home = SwapHome::Writing(bytes.clone());
        Some((bytes, range))
    }

    /// Takes the range of an entry back that was written in `result`, or was not; returns a failure that is news.
    pub fn end_write(
        &mut self,
        name: &SwapName,
        range: Range<u64>,
        result: Result<Duration, String>,
    ) -> Option<String> {
        let len = range.end - range.start;
        self.used.waiting_bytes -= len;
        match (result, self.entry(name)) {
            (Ok(time), Some(entry)) => {
                entry.home = SwapHome::File(range);
                self.used.written.note(len, time);
                None
            }
            (Ok(_), None) => {
                self.give_back(range);
                None
            }
            (Err(problem), entry) => {
                if entry.is_some() {
                    self.entries.remove(&name.0);
                }
                self.give_back(range);
                let failure = format!("a swapped page could not be written: {problem}");
                news(&mut self.used.failure, failure)
            }
        }
    }

    /// Where an entry is that is about to be read, and its serial number.
    pub fn begin_read(&mut self, key: &Key) -> Option<(SwapHome, u64)> {
        let SwapEntry { serial, home } = self.entries.get(key)?;
        if let SwapHome::File(_) = home {
            self.reading.0 += 1;
            self.reading.1.get_or_insert_with(Instant::now);
        }
        Some((home.clone(), *serial))
    }

    /// What was read from a range of the file, where the entry is still there; and a failure that is news.
    pub fn end_read(
        &mut self,
        name: &SwapName,
        range: Range<u64>,
        read: Result<Entry, String>,
    ) -> (Option<Entry>, Option<String>) {
        self.note_read(range.end - range.start);
        // What was removed meanwhile may have been written over.
        if self.entry(name).is_none() {
            return (None, None);
        }
        match read {
            Ok(entry) => (Some(entry), None),
            Err(problem) => {
                self.remove(&name.0);
                self.used.damaged += 1;
                let failure = format!("a swapped page was damaged ({problem}) and is computed again");
                (None, news(&mut self.used.failure, failure))
            }
        }
    }

    /// Time in which several threads read counts once: the rate is that of the disk.
    fn note_read(&mut self, bytes: u64) {
        self.reading.0 -= 1;
        let now = Instant::now();
        let since = self.reading.1.replace(now).unwrap_or(now);
        self.used.read.note(bytes, now - since);
        if self.reading.0 == 0 {
            self.reading.1 = None;
        }
    }

    pub fn used(&self) -> SwapUse {
        let file_bytes = self.file_bytes - self.free.bytes();
        SwapUse { file_bytes, entries: self.entries.len(), ..self.used.clone() }
    }
}
