//! A store of entries: its threads read and write them, so that no step waits for a disk. Where entries lie is its shelf.

use crate::{
    entry::{Entry, Unwritten},
    queue::start_threads,
    read_queue::{Fetch, ReadQueue, WantedEntry},
};
use std::{fmt::Debug, io, sync::Arc, thread::JoinHandle, time::Duration};

/// Where the entries of a store lie; its threads share it.
pub trait EntryShelf: Debug + Send + Sync + 'static {
    /// What the thread that writes is called.
    const WRITER: &'static str;

    /// Takes an entry in, which is written some time later; false where it is not.
    fn put(&self, entry: Unwritten) -> bool;

    /// The entry that is wanted; none where it is not there, or was damaged.
    fn read(&self, wanted: &WantedEntry) -> Option<Entry>;

    /// Writes entries until the shelf is closed.
    fn write_all(&self);

    /// Waits until nothing is to be written.
    fn flush(&self);

    /// Ends [`EntryShelf::write_all`].
    fn close(&self);
}

/// Entries by their keys.
#[derive(Debug)]
pub struct EntryStore<S: EntryShelf> {
    pub(crate) shelf: Arc<S>,
    reads: ReadQueue,
    writers: Vec<JoinHandle<()>>,
}

impl<S: EntryShelf> EntryStore<S> {
    /// Starts the threads of a store.
    ///
    /// # Errors
    /// When the system gives none.
    pub(crate) fn start(shelf: S) -> io::Result<EntryStore<S>> {
        let shelf = Arc::new(shelf);
        let (read, written) = (shelf.clone(), shelf.clone());
        let reads = ReadQueue::start(move |wanted| read.read(wanted))?;
        let writers = start_threads(S::WRITER, 1, move || {
            step_back();
            written.write_all();
        })?;
        Ok(EntryStore { shelf, reads, writers })
    }

    /// Takes an entry in, which is written some time later; false where there is no room for it, or nothing can be written.
    pub fn put(&self, entry: Unwritten) -> bool {
        self.shelf.put(entry)
    }

    /// The entry that is wanted; a damaged one is removed, and missing.
    pub fn read(&self, wanted: &WantedEntry) -> Option<Entry> {
        self.shelf.read(wanted)
    }

    /// Begins to read entries, the first one first. Dropping the result gives the rest up.
    pub fn fetch(&self, wanted: Vec<WantedEntry>) -> Fetch {
        self.reads.fetch(wanted)
    }

    /// Waits until an entry of any fetch has come, or for `longest`.
    pub fn wait(&self, longest: Duration) {
        self.reads.wait(longest);
    }

    /// Waits until nothing is to be written.
    pub fn flush(&self) {
        self.shelf.flush();
    }
}

impl<S: EntryShelf> Drop for EntryStore<S> {
    fn drop(&mut self) {
        self.shelf.close();
        self.writers.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Gives the thread what others leave of the cores. Where threads of a step have all of them, one more thread takes the
/// core from one for milliseconds, and all others wait for that one: decode lost a fifth of its speed.
fn step_back() {
    // Of this thread alone: on Linux each has a nice value. A system that refuses leaves it as it is.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(19);
}
