//! Entries on their way to disk: a bounded queue and the thread that writes them, so that no step waits for a disk.

use crate::{
    counts::StoreCounts,
    entry::{Entry, Key},
    folder::StoreFolder,
    queue::{JobQueue, start_threads},
    reporter::Reporter,
};
use std::{io, sync::Arc, thread::JoinHandle};

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

/// What became of entries.
#[derive(Debug, Default)]
struct Written {
    /// Bytes of those that wait, or are being written.
    waiting_bytes: usize,
    written: u64,
    written_bytes: u64,
    dropped: u64,
    failure: Option<String>,
}

type WriteJobs = JobQueue<(Key, Unwritten), Written>;

/// The queue, and its thread. Dropping it writes what waits.
#[derive(Debug)]
pub struct WriteQueue {
    jobs: Arc<WriteJobs>,
    threads: Vec<JoinHandle<()>>,
}

impl WriteQueue {
    /// A queue to `folder`, in which at most `budget` bytes stay. `report` hears of a disk that refuses.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(folder: StoreFolder, budget: u64, report: Reporter) -> io::Result<WriteQueue> {
        let jobs = JobQueue::new();
        let theirs = jobs.clone();
        let threads =
            start_threads("lamina-writes", 1, move || write_all(&theirs, &folder, budget, &report))?;
        Ok(WriteQueue { jobs, threads })
    }

    /// True when `bytes` more may wait.
    pub fn room(&self, bytes: usize) -> bool {
        self.jobs.lock().shared.waiting_bytes + bytes <= MOST_WAITING
    }

    /// Hands an entry over; false when too much waits already.
    pub fn push(&self, key: Key, entry: Unwritten) -> bool {
        self.jobs.update(|jobs| {
            let len = entry.len();
            if jobs.shared.waiting_bytes + len > MOST_WAITING {
                jobs.shared.dropped += 1;
                return false;
            }
            jobs.shared.waiting_bytes += len;
            jobs.waiting.push_back((key, entry));
            true
        })
    }

    /// Waits until all that was handed over is written.
    pub fn flush(&self) {
        self.jobs.flush();
    }

    /// Adds what was written and dropped to `counts`.
    pub fn count(&self, counts: &mut StoreCounts) {
        let written = &self.jobs.lock().shared;
        counts.written = written.written;
        counts.written_bytes = written.written_bytes;
        counts.dropped = written.dropped;
        counts.failure.clone_from(&written.failure);
    }
}

impl Drop for WriteQueue {
    fn drop(&mut self) {
        self.jobs.close();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Gives the thread what others leave of the cores. Where threads of a step have all of them, one more thread takes the
/// core from one for milliseconds, and all others wait for that one: decode lost a fifth of its speed.
pub(crate) fn step_back() {
    // Of this thread alone: on Linux each has a nice value. A system that refuses leaves it as it is.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(19);
}

fn write_all(jobs: &WriteJobs, folder: &StoreFolder, budget: u64, report: &Reporter) {
    step_back();
    let mut bytes = folder.prune(budget);
    while let Some((key, unwritten)) = jobs.take(|_| true) {
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
        let news = jobs.ended(|written| written.note(&unwritten, len, result));
        if let Some(failure) = news {
            report.line(&format!("an entry of the prefix cache could not be written: {failure}"));
        }
    }
}

impl Written {
    /// Notes what became of an entry; a failure that is not the last one again is told.
    fn note(&mut self, unwritten: &Unwritten, len: u64, result: io::Result<bool>) -> Option<String> {
        self.waiting_bytes -= unwritten.len();
        match result {
            Ok(false) => None,
            Ok(true) => {
                (self.written, self.written_bytes) = (self.written + 1, self.written_bytes + len);
                None
            }
            Err(e) => {
                self.dropped += 1;
                let failure = Some(e.to_string());
                let news = failure.clone().filter(|_| self.failure != failure);
                self.failure = failure;
                news
            }
        }
    }
}
