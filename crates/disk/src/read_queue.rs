//! Entries on their way from disk: threads read them ahead of whoever takes them, so that no step waits for a disk.

use crate::{
    entry::{Entry, Key},
    queue::{JobQueue, start_threads},
};
use std::{collections::HashMap, io, mem, sync::Arc, thread::JoinHandle, time::Duration};

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

/// What was read for those who wait.
#[derive(Debug, Default)]
struct Arrived {
    /// By number of the fetch.
    ready: HashMap<u64, Vec<Arrival>>,
    /// Bytes of it.
    bytes: usize,
    fetches: u64,
}

/// Number of the fetch, place in it, and what is wanted.
type EntryJobs = JobQueue<(u64, usize, WantedEntry), Arrived>;

impl Arrived {
    fn put(&mut self, fetch: u64, place: usize, entry: Option<Entry>) {
        let bytes = size(&entry);
        // Nobody waits for what was given up.
        if let Some(ready) = self.ready.get_mut(&fetch) {
            ready.push((place, entry));
            self.bytes += bytes;
        }
    }

    fn take(&mut self, fetch: u64) -> Vec<Arrival> {
        let arrivals = self.ready.get_mut(&fetch).map(mem::take).unwrap_or_default();
        self.bytes -= arrivals.iter().map(|(_, entry)| size(entry)).sum::<usize>();
        arrivals
    }
}

fn size(entry: &Option<Entry>) -> usize {
    entry.as_ref().map_or(0, |e| e.bytes().len())
}

/// The queue, and its threads.
#[derive(Debug)]
pub struct ReadQueue {
    jobs: Arc<EntryJobs>,
    threads: Vec<JoinHandle<()>>,
}

impl ReadQueue {
    /// A queue of entries that are read by `read`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(
        read: impl Fn(&WantedEntry) -> Option<Entry> + Clone + Send + 'static,
    ) -> io::Result<ReadQueue> {
        let jobs: Arc<EntryJobs> = JobQueue::new();
        let theirs = jobs.clone();
        let threads = start_threads("lamina-entries", READERS, move || {
            while let Some((fetch, place, wanted)) = theirs.take(|arrived| arrived.bytes < MOST_AHEAD) {
                let entry = read(&wanted);
                theirs.ended(|arrived| arrived.put(fetch, place, entry));
            }
        })?;
        Ok(ReadQueue { jobs, threads })
    }

    /// Begins to read entries, the first one first.
    pub fn fetch(&self, wanted: Vec<WantedEntry>) -> Fetch {
        let id = self.jobs.update(|jobs| {
            jobs.shared.fetches += 1;
            let id = jobs.shared.fetches;
            jobs.shared.ready.insert(id, vec![]);
            jobs.waiting.extend(wanted.into_iter().enumerate().map(|(place, wanted)| (id, place, wanted)));
            id
        });
        Fetch { id, jobs: self.jobs.clone() }
    }

    /// Waits until an entry of any fetch has come, or for `longest`.
    pub fn wait(&self, longest: Duration) {
        self.jobs.wait(longest, |jobs| jobs.shared.ready.values().all(Vec::is_empty));
    }
}

impl Drop for ReadQueue {
    fn drop(&mut self) {
        self.jobs.abandon();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Entries that are being read for one who waits. Dropping it gives up those that have not come.
#[derive(Debug)]
pub struct Fetch {
    id: u64,
    jobs: Arc<EntryJobs>,
}

impl Fetch {
    /// What has come since the last call, in the order of coming.
    pub fn take(&mut self) -> Vec<Arrival> {
        self.jobs.update(|jobs| jobs.shared.take(self.id))
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.jobs.update(|jobs| {
            jobs.shared.take(self.id);
            jobs.shared.ready.remove(&self.id);
            jobs.waiting.retain(|(id, ..)| *id != self.id);
        });
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
        ReadQueue::start(read).expect("threads")
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
        assert_eq!(queue.jobs.lock().shared.bytes, 0);
    }

    #[test]
    fn a_fetch_that_is_dropped_leaves_nothing_behind() {
        let queue = queue();
        drop(queue.fetch((0..120).map(|i| wanted(i * 2)).collect()));
        let mut next = queue.fetch(vec![wanted(2)]);
        queue.wait(Duration::from_secs(5));
        assert_eq!(next.take().len(), 1);
        drop(next);
        let jobs = queue.jobs.lock();
        assert!(jobs.waiting.is_empty() && jobs.shared.ready.is_empty() && jobs.shared.bytes == 0);
    }
}
