//! Memory of preempted sequences on its way out and back, between steps.
//!
//! What others take of it is exported before it is written over, and handed to a store. When the sequence has room again,
//! that is put into pages of its own.

use super::{
    Engine,
    stores::{export_part, import_part},
};
use crate::{
    error::Result,
    kv::cache_part::CachePart,
    part_fetch::FetchGoal,
    swap_counts::SwapCounts,
    swap_price::{SwapChoice, SwapPrice},
};
use lamina_disk::{Entry, SwapStore, SwapUse};
use std::time::Instant;

/// Where preempted sequences go.
pub(super) struct SwapTier {
    pub store: SwapStore,
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

    /// Renews what swapping costs.
    pub(super) fn price_swap(&mut self) {
        self.schedule.swap = self.swap.as_ref().map(|swap| swap.price(&self.counters.swap));
    }

    /// Puts an entry into the page or the state of a sequence that comes back; false where it is not what it should be.
    pub(super) fn put_back(&mut self, part: CachePart, at: u32, entry: &Entry) -> bool {
        let begin = Instant::now();
        let done = import_part(&mut *self.step, part, at, entry);
        let counts = &mut self.counters.swap;
        counts.parts_in += 1;
        counts.bytes_in += entry.parts().next().map_or(0, <[u8]>::len) as u64;
        counts.copy_seconds += begin.elapsed().as_secs_f64();
        done.is_ok()
    }

    /// A sequence goes on where it was preempted, or is computed again where it does not have the `whole` of its memory.
    pub(super) fn return_sequence(&mut self, i: usize, whole: bool) {
        let (memory, s) = (&mut self.schedule.memory, &mut self.schedule.running[i]);
        if let Some(FetchGoal::Return { began, .. }) = s.held.awaits.as_ref().map(|fetch| &fetch.goal) {
            self.counters.swap.return_seconds += began.elapsed().as_secs_f64();
        }
        if whole {
            memory.swapped_in(s)
        } else {
            memory.not_swapped_in(s)
        }
        self.let_go_of_swapped();
    }

    /// Lets go of what no sequence waits for any more, and hands over what was taken from those that wait.
    pub(super) fn save_swapped(&mut self) {
        self.let_go_of_swapped();
        let namer = self.schedule.memory.content_namer();
        let (Some(swap), counts) = (&self.swap, &mut self.counters.swap) else { return };
        for placed in self.schedule.memory.take_swapped() {
            let begin = Instant::now();
            // A machine that fails here fails in its next step too, where somebody is told.
            let Ok(saved) = export_part(&*self.step, &namer, &placed) else { continue };
            counts.copy_seconds += begin.elapsed().as_secs_f64();
            let bytes: usize = saved.parts.iter().map(Vec::len).sum();
            if swap.store.put(saved) {
                counts.parts_out += 1;
                counts.bytes_out += bytes as u64;
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
