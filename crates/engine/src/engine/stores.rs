//! The way of pages and states to stores and back, between steps: one keeps beginnings on disk, the other the memory of
//! preempted sequences.
//!
//! What is taken from others is exported before it is written over. What sequences wait for is read by threads of the
//! stores while others run.

use super::Engine;
use crate::{
    error::Result,
    kv::{cache_part::CachePart, content::Namer},
    memory::PlacedPart,
    part_fetch::FetchGoal,
    trace::StepListener,
};
use lamina_disk::{Arrival, Entry, Unwritten};
use lamina_plan::{Batch, Step, backend};
use std::time::Duration;

/// How long an engine that has nothing else to do waits for a disk before it looks for messages.
const READ_WAIT: Duration = Duration::from_millis(5);

impl Engine {
    /// Imports what has come, asks for what is wanted, and exports a little.
    pub(super) fn exchange_with_stores<L: StepListener>(&mut self, told: &mut L) {
        if self.disk.is_none() && self.swap.is_none() {
            return;
        }
        if let Err(e) = self.import_arrivals() {
            self.fail_running(&e, told);
        }
        self.save_beside_step();
        self.price_swap();
    }

    /// Waits a moment where sequences wait for a store; false where none does.
    pub(super) fn wait_for_stores(&mut self) -> bool {
        let (from_disk, from_swap) = self.ask_stores();
        if let (true, Some(disk)) = (from_disk, &self.disk) {
            disk.store.wait(READ_WAIT);
        }
        if let (true, Some(swap)) = (from_swap, &self.swap) {
            swap.store.wait(READ_WAIT);
        }
        from_disk || from_swap
    }

    /// Asks for what sequences wait for; tells which of the stores any does.
    fn ask_stores(&mut self) -> (bool, bool) {
        let (mut from_disk, mut from_swap) = (false, false);
        let namer = self.schedule.memory.content_namer();
        for fetch in self.schedule.running.iter_mut().filter_map(|s| s.held.awaits.as_mut()) {
            match (&fetch.goal, &self.disk, &self.swap) {
                (FetchGoal::Begin { .. }, Some(disk), _) => {
                    from_disk = true;
                    fetch.ask(&disk.store, &namer);
                }
                (FetchGoal::Return { .. }, _, Some(swap)) => {
                    from_swap = true;
                    fetch.ask(&swap.store, &namer);
                }
                _ => {}
            }
        }
        (from_disk, from_swap)
    }

    fn import_arrivals(&mut self) -> Result<()> {
        self.ask_stores();
        for i in 0..self.schedule.running.len() {
            let Some(fetch) = self.schedule.running[i].held.awaits.as_mut() else { continue };
            let arrivals = fetch.arrivals();
            if !arrivals.is_empty() {
                self.import(i, arrivals)?;
            }
        }
        Ok(())
    }

    /// Puts what has come for running sequence `i` into memory. With all of it, or without some of it, the sequence goes on.
    fn import(&mut self, i: usize, arrivals: Vec<Arrival>) -> Result<()> {
        self.make_copies()?;
        self.save_evicted();
        let Some(mut fetch) = self.schedule.running[i].held.awaits.take() else { return Ok(()) };
        let mut whole = true;
        for (place, entry) in arrivals {
            whole &= entry.is_some_and(|entry| match &fetch.goal {
                FetchGoal::Begin { .. } => self.put(&mut fetch, place, &entry),
                FetchGoal::Return { places, .. } => {
                    self.put_back(fetch.wanted[place].part, places[place], &entry)
                }
            });
        }
        let (ended, returns) = (fetch.has_ended() || !whole, fetch.returns());
        self.schedule.running[i].held.awaits = Some(fetch);
        match ended {
            true if returns => self.return_sequence(i, whole),
            true => self.schedule.memory.fetched(&mut self.schedule.running[i]),
            false => {}
        }
        Ok(())
    }

    /// Makes the copies that are due: what comes from a store may lie where they read.
    pub(super) fn make_copies(&mut self) -> Result<()> {
        if !self.schedule.memory.copies.due().is_empty() {
            self.save_evicted();
            let batch = Batch { copies: self.schedule.memory.copies.take(), ..Batch::default() };
            self.step.run(&batch)?;
        }
        Ok(())
    }

    /// Exports what stores have not got and whose memory was taken; nothing was written there yet.
    pub(super) fn save_evicted(&mut self) {
        self.save_swapped();
        for placed in self.schedule.memory.take_evicted() {
            self.save_part(&placed);
        }
    }
}

/// A page or a state as bytes, with its name.
pub(super) fn export_part(step: &dyn Step, namer: &Namer, placed: &PlacedPart) -> Result<Unwritten> {
    let bytes = match placed.part {
        CachePart::Page(group) => step.export_page(group, placed.at),
        CachePart::State => step.export_state(placed.at),
    };
    let wanted = placed.part.wanted(namer, &placed.content);
    Ok(Unwritten { key: wanted.key, proof: wanted.proof, parts: vec![bytes?] })
}

/// Puts the bytes of an entry into a page or a state.
pub(super) fn import_part(
    step: &mut dyn Step,
    part: CachePart,
    at: u32,
    entry: &Entry,
) -> backend::Result<()> {
    let bytes = entry.parts().next().unwrap_or_default();
    match part {
        CachePart::Page(group) => step.import_page(group, at, bytes),
        CachePart::State => step.import_state(at, bytes),
    }
}
