//! Entries on their way to disk: a bounded queue and the thread that writes them, so that no step waits for a disk.

use crate::{
    entry::{Entry, Key},
    evict::victims,
    folder::Folder,
};
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

/// Most bytes that wait; what comes then is dropped.
const MOST_WAITING: usize = 256 << 20;

#[derive(Debug, Default)]
struct Waiting {
    entries: VecDeque<(Key, Entry)>,
    bytes: usize,
    writing: bool,
    closed: bool,
    written: u64,
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
    /// A queue to `folder`, in which at most `budget` bytes stay.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(folder: Folder, budget: u64) -> io::Result<WriteQueue> {
        let desk = Arc::new(Desk::default());
        let theirs = desk.clone();
        let thread = thread::Builder::new()
            .name("lamina-disk".into())
            .spawn(move || write_all(&theirs, &folder, budget))?;
        Ok(WriteQueue { desk, thread: Some(thread) })
    }

    /// Hands an entry over; false when too much waits already.
    pub fn push(&self, key: Key, entry: Entry) -> bool {
        let mut waiting = self.desk.lock();
        let len = entry.bytes().len();
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

    /// Entries written and dropped, and what the last failure was.
    pub fn counts(&self) -> (u64, u64, Option<String>) {
        let waiting = self.desk.lock();
        (waiting.written, waiting.dropped, waiting.failure.clone())
    }
}

impl Drop for WriteQueue {
    fn drop(&mut self) {
        self.desk.lock().closed = true;
        self.desk.changed.notify_all();
        self.thread.take().map(JoinHandle::join);
    }
}

fn write_all(desk: &Desk, folder: &Folder, budget: u64) {
    let mut bytes = make_room(folder, budget);
    while let Some((key, entry)) = next(desk) {
        let len = entry.bytes().len() as u64;
        if bytes + len > budget {
            // Other processes write and remove here too: the folder itself says what it holds.
            bytes = make_room(folder, budget.saturating_sub(len));
        }
        let result = folder.write(&key, &entry);
        let mut waiting = desk.lock();
        (waiting.writing, waiting.bytes) = (false, waiting.bytes - len as usize);
        match result {
            Ok(()) => (bytes, waiting.written) = (bytes + len, waiting.written + 1),
            Err(e) => (waiting.dropped, waiting.failure) = (waiting.dropped + 1, Some(e.to_string())),
        }
        desk.changed.notify_all();
    }
}

fn next(desk: &Desk) -> Option<(Key, Entry)> {
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

/// Evicts down to `budget` bytes; returns how many are left.
fn make_room(folder: &Folder, budget: u64) -> u64 {
    let all = folder.list();
    let total: u64 = all.iter().map(|e| e.bytes).sum();
    let gone = victims(all, budget).into_iter().filter(|e| folder.remove(e).is_ok());
    total - gone.map(|e| e.bytes).sum::<u64>()
}
