//! The prefix cache's way to disk and back, between steps.
//!
//! What is published goes to the store a little at a time beside steps, all of it while nothing runs, and at once where
//! its memory is taken. A beginning that the store has is put into memory as if it had been computed there: then it is
//! found as any other.

use super::{
    Engine,
    stores::{export_part, import_part},
};
use crate::{memory::PlacedPart, part_fetch::PartFetch};
use lamina_disk::{Entry, PageStore, StoreCounts};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Bytes that are exported beside one step, which are copied in memory.
const BESIDE_STEP: usize = 2 << 20;
/// How long the queue to the disk is waited for where it is full.
const WRITE_WAIT: Duration = Duration::from_millis(20);
/// Longest time that the end of an engine waits until all is written.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// A store that outlives the engine.
pub(super) struct DiskTier {
    pub store: Arc<PageStore>,
    /// Bytes of the largest page or state so far.
    largest: usize,
    /// Who waits until others can read what is computed.
    waits: Vec<KeptWait>,
}

/// Somebody who waits until what was computed before lies in the store.
struct KeptWait {
    /// The entries that have to be written; none while some are in memory alone.
    taken: Option<u64>,
    done: KeptCall,
}

/// What is called once others can read what was computed. It is dropped where the disk refuses.
pub(crate) type KeptCall = Box<dyn FnOnce() + Send>;

impl Engine {
    /// This engine with computed beginnings kept in `store` too, where other engines of the same [`crate::Identity`] find
    /// them. Called last, before any request.
    pub fn persisted(mut self, store: Arc<PageStore>) -> Engine {
        self.schedule.memory.save();
        if self.schedule.memory.namer().is_some() {
            self.intake = self.intake.reading(store.clone(), self.schedule.memory.parts());
            self.disk = Some(DiskTier { store, largest: 0, waits: vec![] });
        }
        self
    }

    /// What the store did so far; none without one.
    pub(super) fn disk_counts(&self) -> Option<StoreCounts> {
        self.disk.as_ref().map(|disk| disk.store.counts())
    }

    /// Puts an entry into memory for who waits for it; false where there is no room, or it is not what it should be.
    pub(super) fn put(&mut self, fetch: &mut PartFetch, place: usize, entry: &Entry) -> bool {
        let Some(placed) = self.schedule.memory.take_for(fetch, place) else { return false };
        // What was there before has to be saved first.
        self.save_evicted();
        let done = import_part(&mut *self.step, placed.part, placed.at, entry).is_ok();
        self.schedule.memory.imported(&placed, done);
        done
    }

    /// Calls `done` once all that is computed by now lies in the store; drops it where the disk refuses.
    pub(crate) fn when_kept(&mut self, done: KeptCall) {
        if let Some(disk) = self.disk.as_mut().filter(|disk| disk.store.is_writable()) {
            disk.waits.push(KeptWait { taken: None, done });
        }
    }

    /// Exports a little beside a step; all that the store has room for while somebody waits for it.
    pub(super) fn save_beside_step(&mut self) {
        let waited = self.disk.as_ref().is_some_and(|disk| !disk.waits.is_empty());
        self.save_up_to(if waited { usize::MAX } else { BESIDE_STEP });
        self.tell_kept();
    }

    /// Tells those whose entries are written. True where some wait on.
    fn tell_kept(&mut self) -> bool {
        let Some(disk) = self.disk.as_mut().filter(|disk| !disk.waits.is_empty()) else { return false };
        if !self.schedule.memory.has_unsaved() {
            let taken = disk.store.taken();
            disk.waits.iter_mut().for_each(|wait| _ = wait.taken.get_or_insert(taken));
        }
        let store = &disk.store;
        let over = |wait: &mut KeptWait| wait.taken.is_some_and(|taken| store.has_ended(taken));
        for wait in disk.waits.extract_if(.., over) {
            if !store.refuses() {
                (wait.done)();
            }
        }
        !disk.waits.is_empty()
    }

    /// Exports up to `most` bytes, or one page; false when there is nothing more to export, or the store is full.
    fn save_up_to(&mut self, most: usize) -> bool {
        let mut bytes = 0;
        while bytes < most {
            let Some(disk) = self.disk.as_ref().filter(|d| d.store.room(2 * d.largest)) else { return false };
            let largest = disk.largest;
            let Some(placed) = self.schedule.memory.next_unsaved() else { return false };
            bytes += self.save_part(&placed).max(1);
            if bytes + largest > most {
                return true;
            }
        }
        true
    }

    /// Hands a page or a state to the store; returns its bytes.
    pub(super) fn save_part(&mut self, placed: &PlacedPart) -> usize {
        let (Some(disk), Some(namer)) = (&mut self.disk, self.schedule.memory.namer()) else { return 0 };
        if !disk.store.is_writable() {
            return 0;
        }
        // A machine that fails here fails in its next step too, where somebody is told.
        let Ok(saved) = export_part(&*self.step, &namer, placed) else { return 0 };
        let size = saved.parts.iter().map(Vec::len).sum();
        disk.largest = disk.largest.max(size);
        disk.store.put(saved);
        size
    }

    /// Goes on saving while nothing runs. None when all is saved, else how long to wait before the next call.
    pub(crate) fn save_idle(&mut self) -> Option<Duration> {
        self.disk.as_ref().filter(|disk| disk.store.is_writable())?;
        // A snapshot whose copy waits for a next step would wait for ever.
        self.make_copies().ok()?;
        if self.save_up_to(BESIDE_STEP) {
            return Some(Duration::ZERO);
        }
        let waited = self.tell_kept();
        let disk = self.disk.as_ref()?;
        (waited || !disk.store.room(2 * disk.largest)).then_some(WRITE_WAIT)
    }

    /// Saves all that is not saved, for at most [`LAST_WRITES`].
    pub fn save_all(&mut self) {
        let begin = Instant::now();
        while let Some(wait) = self.save_idle().filter(|_| begin.elapsed() < LAST_WRITES) {
            std::thread::sleep(wait);
        }
        if let Some(disk) = &self.disk {
            disk.store.flush();
        }
    }
}
