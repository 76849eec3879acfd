//! The prefix cache's way to disk and back, between steps.
//!
//! What is published goes to the store a little at a time beside steps, all of it while nothing runs, and at once where
//! its memory is taken. A beginning that the store has is read by threads of its own while others run, and put into
//! memory as if it had been computed there: then it is found as any other.

use super::Engine;
use crate::{error::Result, fetching::Fetching, kv::cache_part::CachePart, memory::PlacedPart};
use lamina_disk::{Entry, PageStore, StoreCounts, Unwritten};
use lamina_plan::Batch;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Bytes that are exported beside one step, which are copied in memory.
const BESIDE_STEP: usize = 2 << 20;
/// How long an engine that has nothing else to do waits for the disk before it looks for messages.
const READ_WAIT: Duration = Duration::from_millis(5);
/// How long the queue to the disk is waited for where it is full.
const WRITE_WAIT: Duration = Duration::from_millis(20);
/// Longest time that the end of an engine waits until all is written.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// A store that outlives the engine.
pub(super) struct DiskTier {
    store: Arc<PageStore>,
    /// Bytes of the largest page or state so far.
    largest: usize,
}

impl Engine {
    /// This engine with computed beginnings kept in `store` too, where other engines of the same [`crate::Identity`] find
    /// them. Called last, before any request.
    pub fn persisted(mut self, store: Arc<PageStore>) -> Engine {
        self.schedule.memory.save();
        if self.schedule.memory.namer().is_some() {
            self.intake = self.intake.reading(store.clone(), self.schedule.memory.parts());
            self.disk = Some(DiskTier { store, largest: 0 });
        }
        self
    }

    /// What the store did so far; none without one.
    pub(super) fn disk_counts(&self) -> Option<StoreCounts> {
        self.disk.as_ref().map(|disk| disk.store.counts())
    }

    /// Imports what has come from disk, asks for what is wanted from there, and exports a little.
    pub(super) fn exchange_with_disk(&mut self) {
        if self.disk.is_none() {
            return;
        }
        if let Err(e) = self.import_arrivals() {
            self.fail_running(&e);
        }
        self.save_up_to(BESIDE_STEP);
    }

    /// Waits a moment where sequences wait for the disk; false where none does.
    pub(super) fn wait_for_disk(&mut self) -> bool {
        let begun = self.begin_fetches();
        if let (true, Some(disk)) = (begun, &self.disk) {
            disk.store.wait(READ_WAIT);
        }
        begun
    }

    /// Asks for what sequences wait for; true where any does.
    fn begin_fetches(&mut self) -> bool {
        let (Some(disk), Some(namer)) = (&self.disk, self.schedule.memory.namer()) else { return false };
        let mut any = false;
        for fetching in self.schedule.running.iter_mut().filter_map(|s| s.held.fetching.as_mut()) {
            any = true;
            if fetching.fetch.is_none() {
                let wanted = fetching.wanted.iter().map(|w| w.part.wanted(&namer, &w.content)).collect();
                fetching.fetch = Some(disk.store.fetch(wanted));
            }
        }
        any
    }

    /// Puts what has come into memory. Sequences that have all, or cannot have it, go on with what is there.
    fn import_arrivals(&mut self) -> Result<()> {
        self.begin_fetches();
        for i in 0..self.schedule.running.len() {
            let Some(fetching) = self.schedule.running[i].held.fetching.as_mut() else { continue };
            let arrivals = fetching.arrivals();
            if arrivals.is_empty() {
                continue;
            }
            let last = fetching.left == 0;
            self.make_copies()?;
            let mut whole = true;
            if let Some(mut fetching) = self.schedule.running[i].held.fetching.take() {
                for (place, entry) in arrivals {
                    whole &= entry.is_some_and(|entry| self.put(&mut fetching, place, &entry));
                }
                self.schedule.running[i].held.fetching = Some(fetching);
            }
            if last || !whole {
                self.schedule.memory.fetched(&mut self.schedule.running[i]);
            }
        }
        Ok(())
    }

    /// Puts an entry into memory for those who wait for it; false where there is no room, or it is not what it should be.
    pub(super) fn put(&mut self, fetching: &mut Fetching, place: usize, entry: &Entry) -> bool {
        let Some(placed) = self.schedule.memory.take_for(fetching, place) else { return false };
        // What was there before has to be saved first.
        self.save_evicted();
        let bytes = entry.parts().next().unwrap_or_default();
        let done = match placed.part {
            CachePart::Page(group) => self.step.import_page(group, placed.at, bytes),
            CachePart::State => self.step.import_state(placed.at, bytes),
        };
        self.schedule.memory.imported(&placed, done.is_ok());
        done.is_ok()
    }

    /// Makes the copies that are due: what comes from disk may lie where they read.
    pub(super) fn make_copies(&mut self) -> Result<()> {
        if self.schedule.memory.owes_copies() {
            self.save_evicted();
            let batch = Batch { copies: self.schedule.memory.take_copies(), ..Batch::default() };
            self.step.run(&batch)?;
        }
        Ok(())
    }

    /// Exports what stores have not got and whose memory was taken; nothing was written there yet.
    pub(super) fn save_evicted(&mut self) {
        self.save_swapped();
        for placed in self.schedule.memory.take_evicted() {
            self.export(&placed);
        }
    }

    /// Exports up to `most` bytes, or one page; false when there is nothing more to export, or the store is full.
    fn save_up_to(&mut self, most: usize) -> bool {
        let mut bytes = 0;
        while bytes < most {
            let Some(disk) = self.disk.as_ref().filter(|d| d.store.room(2 * d.largest)) else { return false };
            let largest = disk.largest;
            let Some(placed) = self.schedule.memory.next_unsaved() else { return false };
            bytes += self.export(&placed).max(1);
            if bytes + largest > most {
                return true;
            }
        }
        true
    }

    /// Hands a page or a state to the store; returns its bytes.
    fn export(&mut self, placed: &PlacedPart) -> usize {
        let (Some(disk), Some(namer)) = (&mut self.disk, self.schedule.memory.namer()) else { return 0 };
        if !disk.store.is_writable() {
            return 0;
        }
        let bytes = match placed.part {
            CachePart::Page(group) => self.step.export_page(group, placed.at),
            CachePart::State => self.step.export_state(placed.at),
        };
        // A machine that fails here fails in its next step too, where somebody is told.
        let Ok(bytes) = bytes else { return 0 };
        let (size, wanted) = (bytes.len(), placed.part.wanted(&namer, &placed.content));
        disk.largest = disk.largest.max(size);
        disk.store.put(wanted.key, Unwritten { proof: wanted.proof, parts: vec![bytes] });
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
        let disk = self.disk.as_ref()?;
        (!disk.store.room(2 * disk.largest)).then_some(WRITE_WAIT)
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
