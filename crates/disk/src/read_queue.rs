//! Entries on their way from disk: threads read them ahead of whoever takes them, so that no step waits for a disk.

use crate::entry::{Entry, Key};
use std::{
    collections::{HashMap, VecDeque},
    fmt, io, mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Threads that read. One alone leaves the disk idle while it checks what it has read.
const READERS: usize = 2;
/// Most bytes that are read ahead.
pub(crate) const MOST_AHEAD: usize = 64 << 20;

/// An entry that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedEntry {
    /// Its name.
    pub key: Key,
    /// What the name was made of.
    pub proof: Vec<u8>,
}

/// An entry that was asked for, by its place among those of its fetch; none where it is not there.
pub type Arrival = (usize, Option<Entry>);

/// How an entry is read.
pub type ReadEntry = Arc<dyn Fn(&WantedEntry) -> Option<Entry> + Send + Sync>;

#[derive(Default)]
struct Ordered {
    /// Number of the fetch, place in it, and what is wanted.
    jobs: VecDeque<(u64, usize, WantedEntry)>,
    /// What was read, by number of the fetch.
    ready: HashMap<u64, Vec<Arrival>>,
    /// Bytes of what was read.
    bytes: usize,
    fetches: u64,
    closed: bool,
}

#[derive(Default)]
struct Counter {
    ordered: Mutex<Ordered>,
    changed: Condvar,
}

impl Counter {
    fn lock(&self) -> MutexGuard<'_, Ordered> {
        self.ordered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next entry to read; none when the queue is closed.
    fn next(&self) -> Option<(u64, usize, WantedEntry)> {
        let mut ordered = self.lock();
        loop {
            if ordered.closed {
                return None;
            }
            if ordered.bytes < MOST_AHEAD
                && let Some(job) = ordered.jobs.pop_front()
            {
                return Some(job);
            }
            ordered = self.changed.wait(ordered).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn put(&self, fetch: u64, place: usize, entry: Option<Entry>) {
        let mut ordered = self.lock();
        let bytes = size(&entry);
        // Nobody waits for what was given up.
        if let Some(ready) = ordered.ready.get_mut(&fetch) {
            ready.push((place, entry));
            ordered.bytes += bytes;
            self.changed.notify_all();
        }
    }
}

fn size(entry: &Option<Entry>) -> usize {
    entry.as_ref().map_or(0, |e| e.bytes().len())
}

/// The queue, and its threads.
pub struct ReadQueue {
    counter: Arc<Counter>,
    threads: Vec<JoinHandle<()>>,
}

impl ReadQueue {
    /// A queue of entries that are read by `read`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(read: ReadEntry) -> io::Result<ReadQueue> {
        let mut queue = ReadQueue { counter: Arc::default(), threads: vec![] };
        for _ in 0..READERS {
            let (counter, read) = (queue.counter.clone(), read.clone());
            let work = move || {
                while let Some((fetch, place, wanted)) = counter.next() {
                    counter.put(fetch, place, read(&wanted));
                }
            };
            queue.threads.push(thread::Builder::new().name("lamina-disk".into()).spawn(work)?);
        }
        Ok(queue)
    }

    /// Begins to read entries, the first one first.
    pub fn fetch(&self, wanted: Vec<WantedEntry>) -> Fetch {
        let mut ordered = self.counter.lock();
        ordered.fetches += 1;
        let id = ordered.fetches;
        ordered.ready.insert(id, vec![]);
        ordered.jobs.extend(wanted.into_iter().enumerate().map(|(place, wanted)| (id, place, wanted)));
        self.counter.changed.notify_all();
        Fetch { id, counter: self.counter.clone() }
    }

    /// Waits until an entry of any fetch has come, or for `longest`.
    pub fn wait(&self, longest: Duration) {
        let nothing = |o: &mut Ordered| o.ready.values().all(Vec::is_empty);
        let waited = self.counter.changed.wait_timeout_while(self.counter.lock(), longest, nothing);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl fmt::Debug for ReadQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadQueue of {} threads", self.threads.len())
    }
}

impl Drop for ReadQueue {
    fn drop(&mut self) {
        self.counter.lock().closed = true;
        self.counter.changed.notify_all();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Entries that are being read for one who waits. Dropping it gives up those that have not come.
pub struct Fetch {
    id: u64,
    counter: Arc<Counter>,
}

impl Fetch {
    /// What has come since the last call, in the order of coming.
    pub fn take(&mut self) -> Vec<Arrival> {
        let mut ordered = self.counter.lock();
        let arrivals = ordered.ready.get_mut(&self.id).map(mem::take).unwrap_or_default();
        ordered.bytes -= arrivals.iter().map(|(_, entry)| size(entry)).sum::<usize>();
        self.counter.changed.notify_all();
        arrivals
    }
}

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fetch {}", self.id)
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        drop(self.take());
        let mut ordered = self.counter.lock();
        ordered.ready.remove(&self.id);
        ordered.jobs.retain(|(id, ..)| *id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(i: u8) -> WantedEntry {
        WantedEntry { key: [i; 16], proof: vec![] }
    }

    /// A queue in which keys of even bytes have an entry.
    fn queue() -> ReadQueue {
        let read = |w: &WantedEntry| {
            w.key[0].is_multiple_of(2).then(|| Entry::new(&w.key, &[], &[&[w.key[0]; 100]]))
        };
        ReadQueue::start(Arc::new(read)).expect("threads")
    }

    #[test]
    fn all_that_is_wanted_comes_and_misses_are_told() {
        let queue = queue();
        let mut fetches = [queue.fetch((0..50).map(wanted).collect()), queue.fetch(vec![wanted(7)])];
        let mut came = vec![vec![]; 2];
        while came[0].len() < 50 || came[1].is_empty() {
            queue.wait(Duration::from_secs(5));
            fetches.iter_mut().zip(&mut came).for_each(|(f, came)| came.extend(f.take()));
        }
        came[0].sort_by_key(|(place, _)| *place);
        for (i, (place, entry)) in came[0].iter().enumerate() {
            assert_eq!((*place, entry.is_some()), (i, i % 2 == 0));
        }
        assert_eq!(came[1], [(0, None)]);
        assert_eq!(queue.counter.lock().bytes, 0);
    }

    #[test]
    fn a_fetch_that_is_dropped_leaves_nothing_behind() {
        let queue = queue();
        drop(queue.fetch((0..120).map(|i| wanted(i * 2)).collect()));
        let mut next = queue.fetch(vec![wanted(2)]);
        queue.wait(Duration::from_secs(5));
        assert_eq!(next.take().len(), 1);
        drop(next);
        let ordered = queue.counter.lock();
        assert!(ordered.jobs.is_empty() && ordered.ready.is_empty() && ordered.bytes == 0);
    }
}
