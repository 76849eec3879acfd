//! Entries on their way to disk: a bounded queue and the thread that writes them, so that no step waits for a disk.

use crate::{
    counts::{Report, StoreCounts},
    entry::{Entry, Key},
    folder::StoreFolder,
};
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

/// Most bytes that wait; what comes then is dropped.
const MOST_WAITING: usize = 256 << 20;

/// Bytes that are on their way to disk: those of an [`Entry`] before its checksum, which the writer makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritten {
    /// What the key was made of.
    pub proof: Vec<u8>,
    /// The parts, in order.
    pub parts: Vec<Vec<u8>>,
}

impl Unwritten {
    /// Bytes of the entry that it becomes.
    pub(crate) fn entry_len(&self) -> usize {
        Entry::length(self.proof.len(), self.parts.iter().map(Vec::len))
    }

    fn len(&self) -> usize {
        self.proof.len() + self.parts.iter().map(Vec::len).sum::<usize>()
    }

    pub(crate) fn entry(&self, key: &Key) -> Entry {
        let parts: Vec<&[u8]> = self.parts.iter().map(Vec::as_slice).collect();
        Entry::new(key, &self.proof, &parts)
    }
}

#[derive(Debug, Default)]
struct Waiting {
    entries: VecDeque<(Key, Unwritten)>,
    bytes: usize,
    writing: bool,
    closed: bool,
    written: u64,
    written_bytes: u64,
    dropped: u64,
    failure: Option<String>,
}

#[derive(Debug, Default)]
struct Desk {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, guard: MutexGuard<'a, Waiting>) -> MutexGuard<'a, Waiting> {
        self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }
}

/// The queue, and its thread. Dropping it writes what waits.
#[derive(Debug)]
pub struct WriteQueue {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

impl WriteQueue {
    /// A queue to `folder`, in which at most `budget` bytes stay. `report` hears of a disk that refuses.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(folder: StoreFolder, budget: u64, report: Report) -> io::Result<WriteQueue> {
        let desk = Arc::new(Desk::default());
        let theirs = desk.clone();
        let thread = thread::Builder::new()
            .name("lamina-disk".into())
            .spawn(move || write_all(&theirs, &folder, budget, report))?;
        Ok(WriteQueue { desk, thread: Some(thread) })
    }

    /// True when `bytes` more may wait.
    pub fn room(&self, bytes: usize) -> bool {
        self.desk.lock().bytes + bytes <= MOST_WAITING
    }

    /// Hands an entry over; false when too much waits already.
    pub fn push(&self, key: Key, entry: Unwritten) -> bool {
        let mut waiting = self.desk.lock();
        let len = entry.len();
        if waiting.bytes + len > MOST_WAITING {
            waiting.dropped += 1;
            return false;
        }
        waiting.bytes += len;
        waiting.entries.push_back((key, entry));
        self.desk.changed.notify_all();
        true
    }

    /// Waits until all that was handed over is written.
    pub fn flush(&self) {
        let mut waiting = self.desk.lock();
        while waiting.writing || !waiting.entries.is_empty() {
            waiting = self.desk.wait(waiting);
        }
    }

    /// Adds what was written and dropped to `counts`.
    pub fn count(&self, counts: &mut StoreCounts) {
        let waiting = self.desk.lock();
        counts.written = waiting.written;
        counts.written_bytes = waiting.written_bytes;
        counts.dropped = waiting.dropped;
        counts.failure.clone_from(&waiting.failure);
    }
}

impl Drop for WriteQueue {
    fn drop(&mut self) {
        self.desk.lock().closed = true;
        self.desk.changed.notify_all();
        self.thread.take().map(JoinHandle::join);
    }
}

/// Gives the thread what others leave of the cores. Where threads of a step have all of them, one more thread takes the
/// core from one for milliseconds, and all others wait for that one: decode lost a fifth of its speed.
pub(crate) fn step_back() {
    // Of this thread alone: on Linux each has a nice value. A system that refuses leaves it as it is.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(19);
}

fn write_all(desk: &Desk, folder: &StoreFolder, budget: u64, report: Report) {
    step_back();
    let mut bytes = folder.prune(budget);
    while let Some((key, unwritten)) = next(desk) {
        let entry = unwritten.entry(&key);
        let len = entry.bytes().len() as u64;
        if bytes + len > budget {
            // Other processes write and remove here too: the folder itself says what it holds.
            bytes = folder.prune(budget.saturating_sub(len));
        }
        let result = match len > budget {
            true => Err(io::Error::other("it alone is larger than the budget")),
            false => folder.write(&key, &entry),
        };
        bytes += if let Ok(true) = result { len } else { 0 };
        let news = desk.lock().note(&unwritten, len, result);
        if let Some(failure) = news {
            report(&format!("an entry of the prefix cache could not be written: {failure}"));
        }
        desk.changed.notify_all();
    }
}

impl Waiting {
    /// Notes what became of the entry that was being written; a failure that is not the last one again is told.
    fn note(&mut self, unwritten: &Unwritten, len: u64, result: io::Result<bool>) -> Option<String> {
        (self.writing, self.bytes) = (false, self.bytes - unwritten.len());
        let failure = match result {
            Ok(false) => return None,
            Ok(true) => {
                (self.written, self.written_bytes) = (self.written + 1, self.written_bytes + len);
                return None;
            }
            Err(e) => Some(e.to_string()),
        };
        self.dropped += 1;
        let news = failure.clone().filter(|_| self.failure != failure);
        self.failure = failure;
        news
    }
}

fn next(desk: &Desk) -> Option<(Key, Unwritten)> {
    let mut waiting = desk.lock();
    loop {
        if let Some(entry) = waiting.entries.pop_front() {
            waiting.writing = true;
            return Some(entry);
        }
        if waiting.closed {
            return None;
        }
        waiting = desk.wait(waiting);
    }
}
