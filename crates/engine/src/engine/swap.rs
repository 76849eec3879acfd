//! Memory of preempted sequences on its way out and back, between steps.
//!
//! What others take of it is exported before it is written over, and handed to a store. When the sequence has room again,
//! that is read by threads of the store while others run, and put into pages of its own.

use super::Engine;
use crate::{
    error::Result,
    kv::cache_part::CachePart,
    swap_counts::SwapCounts,
    swap_price::{SwapChoice, SwapPrice},
};
use lamina_disk::{Arrival, SwapStore, SwapUse, Unwritten};
use std::time::{Duration, Instant};

/// How long an engine that has nothing else to do waits for the disk before it looks for messages.
const READ_WAIT: Duration = Duration::from_millis(5);

/// Where preempted sequences go.
pub(super) struct SwapTier {
    store: SwapStore,
    choice: SwapChoice,
    /// Bytes of a page of each layer group, and of a state.
    page_bytes: Vec<usize>,
    state_bytes: usize,
}

impl SwapTier {
    /// What swapping costs, by what was measured so far.
    fn price(&self, counts: &SwapCounts) -> SwapPrice {
        let used = self.store.used();
        let copied = (counts.bytes_out + counts.bytes_in).max(1) as f64;
        // Bytes are copied out and back.
        let copying = 2.0 * counts.copy_seconds / copied;
        SwapPrice {
            page_bytes: self.page_bytes.clone(),
            state_bytes: self.state_bytes,
            seconds_per_byte: copying + used.written.seconds_per_byte() + used.read.seconds_per_byte(),
            choice: self.choice,
        }
    }
}

impl Engine {
    /// This engine with memory of preempted sequences kept in `store`, where `choice` says so, instead of computed again.
    /// Called before any request.
    ///
    /// # Errors
    /// When the machine cannot export its memory.
    pub fn swapping(mut self, store: SwapStore, choice: SwapChoice) -> Result<Engine> {
        let plan = self.step.plan();
        // Where rows see later ones, a text is one step: there is nothing to keep.
        if plan.looks_ahead() || self.schedule.memory.pages() == 0 {
            return Ok(self);
        }
        let groups = 0..plan.kv.groups.len();
        let page_bytes =
            groups.map(|group| Ok(self.step.export_page(group, 0)?.len())).collect::<Result<_>>()?;
        let state_bytes = if plan.kv.state_len() > 0 { self.step.export_state(0)?.len() } else { 0 };
        self.swap = Some(SwapTier { store, choice, page_bytes, state_bytes });
        Ok(self)
    }

    /// What preempted sequences take beside the cache; none where they are always computed again.
    pub fn swap_use(&self) -> Option<SwapUse> {
        self.swap.as_ref().map(|swap| swap.store.used())
    }

    /// Puts back what has come, asks for what is wanted, and renews the price of it all.
    pub(super) fn exchange_with_swap(&mut self) {
        if self.swap.is_none() {
            return;
        }
        self.begin_swapping_in();
        for i in 0..self.schedule.running.len() {
            let Some(back) = self.schedule.running[i].held.swapping_in.as_mut() else { continue };
            let arrivals = back.arrivals();
            if !arrivals.is_empty()
                && let Err(e) = self.take_back(i, arrivals)
            {
                return self.fail_running(&e);
            }
        }
        self.schedule.swap = self.swap.as_ref().map(|swap| swap.price(&self.counters.swap));
    }

    /// Waits a moment where sequences wait to come back; false where none does.
    pub(super) fn wait_for_swap(&mut self) -> bool {
        let begun = self.begin_swapping_in();
        if let (true, Some(swap)) = (begun, &self.swap) {
            swap.store.wait(READ_WAIT);
        }
        begun
    }

    /// Asks for what sequences wait for; true where any does.
    fn begin_swapping_in(&mut self) -> bool {
        let Some(swap) = &self.swap else { return false };
        let namer = self.schedule.memory.content_namer();
        let mut any = false;
        for back in self.schedule.running.iter_mut().filter_map(|s| s.held.swapping_in.as_mut()) {
            any = true;
            if back.fetch.is_none() {
                let wanted = back.wanted.iter().map(|(w, _)| w.part.wanted(&namer, &w.content)).collect();
                back.fetch = Some(swap.store.fetch(wanted));
            }
        }
        any
    }

    /// Puts what has come for running sequence `i` into its memory. With all of it the sequence goes on, and without some of
    /// it it is computed again.
    fn take_back(&mut self, i: usize, arrivals: Vec<Arrival>) -> Result<()> {
        self.make_copies()?;
        self.save_evicted();
        let begin = Instant::now();
        let mut whole = true;
        for (place, entry) in arrivals {
            let Some(back) = &self.schedule.running[i].held.swapping_in else { break };
            let (part, at) = (back.wanted[place].0.part, back.wanted[place].1);
            let bytes = entry.as_ref().and_then(|e| e.parts().next());
            let done = bytes.map(|bytes| match part {
                CachePart::Page(group) => self.step.import_page(group, at, bytes),
                CachePart::State => self.step.import_state(at, bytes),
            });
            whole &= matches!(done, Some(Ok(())));
            self.counters.swap.parts_in += 1;
            self.counters.swap.bytes_in += bytes.map_or(0, <[u8]>::len) as u64;
        }
        self.counters.swap.copy_seconds += begin.elapsed().as_secs_f64();
        let (memory, s) = (&mut self.schedule.memory, &mut self.schedule.running[i]);
        if let Some(back) = s.held.swapping_in.as_ref().filter(|back| back.left == 0 || !whole) {
            self.counters.swap.return_seconds += back.began.elapsed().as_secs_f64();
        }
        match s.held.swapping_in.as_ref().map_or(0, |back| back.left) {
            _ if !whole => memory.not_swapped_in(s),
            0 => memory.swapped_in(s),
            _ => {}
        }
        self.let_go_of_swapped();
        Ok(())
    }

    /// Lets go of what no sequence waits for any more, and hands over what was taken from those that wait.
    pub(super) fn save_swapped(&mut self) {
        self.let_go_of_swapped();
        let namer = self.schedule.memory.content_namer();
        let (Some(swap), counts) = (&self.swap, &mut self.counters.swap) else { return };
        for placed in self.schedule.memory.take_swapped() {
            let begin = Instant::now();
            let bytes = match placed.part {
                CachePart::Page(group) => self.step.export_page(group, placed.at),
                CachePart::State => self.step.export_state(placed.at),
            };
            // A machine that fails here fails in its next step too, where somebody is told.
            let Ok(bytes) = bytes else { continue };
            counts.copy_seconds += begin.elapsed().as_secs_f64();
            let (len, wanted) = (bytes.len() as u64, placed.part.wanted(&namer, &placed.content));
            if swap.store.put(wanted.key, Unwritten { proof: wanted.proof, parts: vec![bytes] }) {
                counts.parts_out += 1;
                counts.bytes_out += len;
                self.schedule.memory.stored(&placed);
            }
        }
    }

    /// Frees what the store keeps of sequences that came back or ended.
    pub(super) fn let_go_of_swapped(&mut self) {
        let Some(swap) = &self.swap else { return };
        self.schedule.memory.take_let_go().iter().for_each(|key| swap.store.remove(key));
        let swaps = &self.schedule.memory.swaps;
        let (kept, returned, lost) = (swaps.kept, swaps.returned, swaps.lost);
        self.counters.swap = SwapCounts { kept, returned, lost, ..self.counters.swap };
    }
}
