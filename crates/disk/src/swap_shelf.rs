//! Entries that are needed no longer than the process lives: pages of sequences that others pushed out.
//!
//! They lie in memory up to a budget, and behind that in a file without a name, so that nothing is left behind however the
//! process ends. A thread of its own writes; what it has not written yet is read from memory. Entries in the file have
//! checksums: one that is damaged is missing.

use crate::{
    buffer::{BLOCK, PageBuffer},
    direct::DirectFile,
    entry::{Entry, Key, Unwritten},
    entry_store::{EntryShelf, EntryStore},
    error::NoRoom,
    queue::JobQueue,
    read_queue::WantedEntry,
    reporter::Reporter,
    swap_table::{SwapHome, SwapName, SwapTable},
    swap_use::{SwapBudget, SwapRate, SwapUse},
};
use std::{
    io,
    ops::Range,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// Bytes that are written and read to know the speed of the disk.
const PROBE: u64 = 16 << 20;
/// Bytes of each such write and read.
const PIECE: u64 = 1 << 20;
/// How long is waited for a disk that has too much to write already. It writes more than may wait in that time, or is not
/// worth waiting for.
const PATIENCE: Duration = Duration::from_secs(1);

/// A store whose entries are gone with the process. Dropping it leaves unwritten what waits.
pub type SwapStore = EntryStore<SwapShelf>;

/// Entries in memory and in a file without a name, and those that wait to be written there; some of these may be gone.
#[derive(Debug)]
pub struct SwapShelf {
    writes: Arc<JobQueue<SwapName, SwapTable>>,
    file: Option<DirectFile>,
    report: Reporter,
}

impl EntryStore<SwapShelf> {
    /// An empty store. Its file is made on the disk of `folder`, with its whole length, and some of it is written and read
    /// to know how fast that is. `report` hears a line of what goes wrong later.
    ///
    /// # Errors
    /// When the disk has no room, or the folder cannot be made or written.
    pub fn open(folder: &Path, budget: SwapBudget, report: Reporter) -> Result<SwapStore, NoRoom> {
        let failed = |source| NoRoom {
            what: "swapped pages take up to",
            folder: folder.into(),
            bytes: budget.disk,
            source,
            advice: "free space, ask for less with kv_swap, or name another folder with panel_cache",
        };
        SwapShelf::open(folder, budget, report).and_then(EntryStore::start).map_err(failed)
    }

    /// Lets go of an entry: its room is free at once.
    pub fn remove(&self, key: &Key) {
        self.shelf.writes.update(|jobs| jobs.shared.remove(key));
    }

    /// What it holds, and what happened.
    pub fn used(&self) -> SwapUse {
        self.shelf.writes.lock().shared.used()
    }
}

impl SwapShelf {
    fn open(folder: &Path, budget: SwapBudget, report: Reporter) -> io::Result<SwapShelf> {
        let (mut file, mut rates) = (None, [SwapRate::default(); 2]);
        if budget.disk > 0 {
            std::fs::create_dir_all(folder)?;
            let made = DirectFile::nameless(folder, budget.disk.next_multiple_of(BLOCK as u64))?;
            rates = probe(&made, PROBE.min(budget.disk))?;
            file = Some(made);
        }
        Ok(SwapShelf { writes: JobQueue::sharing(SwapTable::new(budget, rates)), file, report })
    }

    /// Writes an entry; returns how long that took.
    fn write(&self, entry: &Unwritten, offset: u64) -> io::Result<Duration> {
        let begin = Instant::now();
        let entry = entry.entry();
        let mut buffer = PageBuffer::new(entry.bytes().len());
        buffer.bytes_mut()[..entry.bytes().len()].copy_from_slice(entry.bytes());
        self.file.as_ref().map_or(Ok(()), |file| file.write_blocks(offset, buffer.bytes()))?;
        Ok(begin.elapsed())
    }

    fn read_range(&self, name: &SwapName, range: Range<u64>) -> Option<Entry> {
        let len = (range.end - range.start) as usize;
        let mut buffer = PageBuffer::new(len);
        let read = self.file.as_ref()?.read_blocks(range.start, buffer.bytes_mut());
        let entry = read.map_err(|e| e.to_string()).and_then(|()| {
            Entry::read(&name.0, buffer.bytes()[..len].to_vec()).map_err(|damage| damage.to_string())
        });
        let (entry, failure) = self.writes.lock().shared.end_read(name, range, entry);
        failure.iter().for_each(|failure| self.report.line(failure));
        entry
    }
}

impl EntryShelf for SwapShelf {
    const WRITER: &'static str = "lamina-swap";

    /// Waits for a disk that has much to write already.
    fn put(&self, entry: Unwritten) -> bool {
        let len = entry.entry_len() as u64;
        self.writes.wait(PATIENCE, |jobs| jobs.shared.is_full_for(&entry.key, len));
        self.writes.update(|jobs| jobs.shared.put(entry, &mut jobs.waiting))
    }

    fn read(&self, wanted: &WantedEntry) -> Option<Entry> {
        let (home, serial) = self.writes.lock().shared.begin_read(&wanted.key)?;
        let entry = match home {
            SwapHome::File(range) => self.read_range(&(wanted.key, serial), range)?,
            SwapHome::Memory(entry) | SwapHome::Waiting(entry, _) | SwapHome::Writing(entry) => entry.entry(),
        };
        (entry.proof() == wanted.proof).then_some(entry)
    }

    fn write_all(&self) {
        while let Some(name) = self.writes.take(|_| true) {
            let write = self.writes.lock().shared.begin_write(&name);
            let written = write.map(|(entry, range)| (self.write(&entry, range.start), range));
            let failure = self.writes.ended(|table| {
                let (result, range) = written?;
                table.end_write(&name, range, result.map_err(|e| e.to_string()))
            });
            failure.iter().for_each(|failure| self.report.line(failure));
        }
    }

    fn flush(&self) {
        self.writes.flush();
    }

    fn close(&self) {
        self.writes.abandon();
    }
}

/// How fast the first `bytes` of a file are written, and read.
fn probe(file: &DirectFile, bytes: u64) -> io::Result<[SwapRate; 2]> {
    let (mut buffer, mut rates) = (PageBuffer::new(PIECE as usize), [SwapRate::default(); 2]);
    // Zeros might be kept as holes.
    buffer.bytes_mut().iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 31 % 251) as u8);
    for (reads, rate) in rates.iter_mut().enumerate() {
        let begin = Instant::now();
        for offset in (0..bytes / PIECE).map(|i| i * PIECE) {
            match reads {
                0 => file.write_blocks(offset, buffer.bytes())?,
                _ => file.read_blocks(offset, buffer.bytes_mut())?,
            }
        }
        rate.note(bytes / PIECE * PIECE, begin.elapsed());
    }
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn key(i: u32) -> Key {
        let mut key = Key::default();
        key[..4].copy_from_slice(&i.to_le_bytes());
        key
    }

    /// An entry of some thousand bytes that are all its own.
    fn entry(i: u32) -> Unwritten {
        let bytes = (0..3000 + i as usize % 5 * 1000).map(|at| (at as u32 * 7 + i) as u8).collect();
        Unwritten { key: key(i), proof: i.to_le_bytes().to_vec(), parts: vec![bytes] }
    }

    fn wanted(i: u32) -> WantedEntry {
        WantedEntry { key: key(i), proof: i.to_le_bytes().to_vec() }
    }

    /// The numbers of those of `all` that come back as they were put.
    fn found(store: &SwapStore, all: &[u32]) -> Vec<u32> {
        let mut fetch = store.fetch(all.iter().map(|&i| wanted(i)).collect());
        let mut came = vec![];
        while came.len() < all.len() {
            store.wait(Duration::from_secs(5));
            came.extend(fetch.take());
        }
        came.sort_by_key(|(place, _)| *place);
        let right = |(place, read): (usize, Option<crate::Entry>)| {
            let part = read.map(|e| e.parts().next().unwrap_or_default().to_vec());
            part.filter(|part| *part == entry(all[place]).parts[0]).map(|_| all[place])
        };
        came.into_iter().filter_map(right).collect()
    }

    #[test]
    fn entries_come_back_from_memory_and_from_the_file_and_leave_room() {
        let folder = tempfile::tempdir().expect("a folder");
        for (memory, disk) in [(1 << 20, 0), (0, 1 << 20), (20_000, 1 << 20)] {
            let store = SwapStore::open(folder.path(), SwapBudget { memory, disk }, Reporter::default())
                .expect("opens");
            let all: Vec<u32> = (0..50).collect();
            assert!(all.iter().all(|&i| store.put(entry(i))));
            assert_eq!(found(&store, &all), all, "{memory} {disk}, on the way");
            store.flush();
            assert_eq!(found(&store, &all), all, "{memory} {disk}");
            let used = store.used();
            assert_eq!((used.entries, used.waiting_bytes, used.refused), (50, 0, 0));
            assert!(used.memory_bytes <= memory && used.file_bytes <= disk, "{used:?}");
            assert!(disk == 0 || used.written.bytes > 0.0 && used.read.bytes > 0.0);
            (0..50).step_by(2).for_each(|i| store.remove(&key(i)));
            assert_eq!(found(&store, &all).len(), 25);
            (0..50).for_each(|i| store.remove(&key(i)));
            let used = store.used();
            assert_eq!((used.entries, used.memory_bytes, used.file_bytes), (0, 0, 0));
        }
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0, "the file has no name");
    }

    #[test]
    fn what_does_not_fit_is_refused_and_what_is_given_up_while_it_is_written_frees_its_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let budget = SwapBudget { memory: 0, disk: 64 << 10 };
        let store = SwapStore::open(folder.path(), budget, Reporter::default()).expect("opens");
        for round in 0..200 {
            let put = (0..20).filter(|&i| store.put(entry(i))).count();
            assert!((8..16).contains(&put), "{put} entries of one or two blocks in sixteen");
            if round % 3 == 0 {
                store.flush();
            }
            (0..20).for_each(|i| store.remove(&key(i)));
        }
        store.flush();
        assert_eq!((store.used().file_bytes, store.used().waiting_bytes), (0, 0));
        assert!(store.used().refused > 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn flipped_bytes_are_found_and_the_entry_is_missing() {
        use std::os::unix::fs::FileExt;
        let folder = tempfile::tempdir().expect("a folder");
        let budget = SwapBudget { memory: 0, disk: 1 << 20 };
        let store = SwapStore::open(folder.path(), budget, Reporter::default()).expect("opens");
        let all: Vec<u32> = (0..40).collect();
        assert!(all.iter().all(|&i| store.put(entry(i))));
        store.flush();
        // The file has no name, but the process has it open.
        let links = fs::read_dir("/proc/self/fd").expect("readable").flatten();
        let of_store = |path: &Path| fs::read_link(path).is_ok_and(|to| to.starts_with(folder.path()));
        let path = links.map(|link| link.path()).find(|path| of_store(path)).expect("the file is open");
        let file = fs::File::options().read(true).write(true).open(path).expect("opens again");
        let mut byte = [0];
        file.read_at(&mut byte, 100).expect("readable");
        file.write_at(&[byte[0] ^ 4], 100).expect("writable");
        assert_eq!(found(&store, &all), all[1..], "the first one lies at the beginning");
        let used = store.used();
        assert_eq!((used.damaged, used.entries), (1, 39));
        assert!(used.failure.is_some_and(|f| f.contains("checksum")));
    }

    #[test]
    fn a_disk_that_refuses_later_loses_entries_and_no_more() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), vec![0; 1 << 20]).expect("written");
        // It can only be read.
        let file = DirectFile::open(file.path()).expect("opens");
        let budget = SwapBudget { memory: 0, disk: 1 << 20 };
        let writes = JobQueue::sharing(SwapTable::new(budget, Default::default()));
        let shelf = SwapShelf { writes, file: Some(file), report: Reporter::default() };
        let store = EntryStore::start(shelf).expect("threads");
        assert!(store.put(entry(1)));
        store.flush();
        let used = store.used();
        assert_eq!((found(&store, &[1]), used.entries, used.file_bytes), (vec![], 0, 0));
        assert!(used.failure.is_some());
    }

    #[test]
    fn a_folder_that_is_none_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let budget = SwapBudget { memory: 0, disk: 1 << 20 };
        let e = SwapStore::open(&file.path().join("below"), budget, Reporter::default())
            .expect_err("a file is no folder");
        assert!(e.to_string().contains("kv_swap"), "{e}");
    }
}
