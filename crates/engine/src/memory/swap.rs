//! Preempted sequences that go on where they were. Nothing is moved here: the engine is told what to export before the next
//! step, and where to put what was read.
//!
//! A preempted sequence gives its pages back as any other, known by what they hold: the last one too, by the cells that it
//! has, and the state behind them as a snapshot. What others take of it is swapped out before it is written over, and the
//! rest is still there when the sequence returns. Sequences with a common beginning wait for the same contents.

use super::{Memory, disk::PlacedPart};
use crate::{
    kv::{cache_part::CachePart, content::Content},
    part_fetch::{FetchGoal, PartFetch, SwappedOut, WantedPart},
    sequence::Sequence,
};
use lamina_disk::Key;
use lamina_plan::{KeptCells, NO_PAGE, PAGE_LEN, batch::Copy};
use std::{collections::HashMap, sync::Arc, time::Instant};

/// Something that preempted sequences wait for.
#[derive(Debug, Default)]
struct AwaitedPart {
    /// Sequences.
    count: u32,
    /// A store has it.
    stored: bool,
}

/// What preempted sequences wait for, and what became of them.
#[derive(Debug, Default)]
pub(crate) struct Swaps {
    awaited: HashMap<(u64, CachePart), AwaitedPart>,
    /// Names of what a store has and nobody waits for any more.
    let_go: Vec<Key>,
    /// States that were taken, and what they hold until they are written to.
    pub(super) states: Vec<(u32, Arc<Content>)>,
    /// Sequences whose memory was kept, that came back, and that did not.
    pub kept: u64,
    pub returned: u64,
    pub lost: u64,
}

impl Memory {
    /// Pages of each group that a sequence would wait for.
    pub fn swap_pages(&self, s: &Sequence) -> Vec<usize> {
        let end = s.computed.div_ceil(PAGE_LEN);
        self.groups.iter().map(|g| end - (g.reach.first(s.computed) / PAGE_LEN).min(end)).collect()
    }

    /// Takes the memory of a preempted sequence back as [`Memory::free`] does, and has it wait for what was in it.
    pub fn swap_out(&mut self, s: &mut Sequence) {
        if let Some(back) = s.held.awaits.take_if(|fetch| fetch.returns()) {
            return self.swap_out_again(s, *back);
        }
        // Selected cells are not what the tokens of their pages say, and sums are nowhere else: both are computed again.
        let recomputed = s.held.kept != KeptCells::All || s.held.sums.is_some();
        if s.computed == 0 || recomputed || self.owes_copies_to(s) {
            return self.free(s);
        }
        let out = SwappedOut { computed: s.computed, contents: self.name_pages(s) };
        for WantedPart { content, part } in self.parts_of_swapped(&out) {
            self.expect(&content, part);
        }
        self.keep_state(s, &out);
        self.free(s);
        self.swaps.kept += 1;
        s.swapped = Some(Box::new(out));
    }

    /// A sequence that was preempted on its way back waits for the same again.
    fn swap_out_again(&mut self, s: &mut Sequence, back: PartFetch) {
        let FetchGoal::Return { out, .. } = back.goal else { return };
        if !back.wanted.iter().any(|wanted| wanted.part == CachePart::State) {
            self.keep_state(s, &out);
        }
        self.free(s);
        s.swapped = Some(Box::new(out));
    }

    fn keep_state(&mut self, s: &mut Sequence, out: &SwappedOut) {
        if let (Some(states), Some(last)) = (&mut self.states, out.contents.last())
            && let Some(state) = s.held.state.take()
        {
            states.keep(state, last);
        }
    }

    /// True when copies are due that fill what `s` holds: it is not there yet.
    fn owes_copies_to(&self, s: &Sequence) -> bool {
        self.copies.due().iter().any(|copy| match *copy {
            Copy::Page { group, to, .. } => s.held.tables[group as usize].contains(&to),
            Copy::State { to, .. } => s.held.state == Some(to),
        })
    }

    /// Contents of all pages of `s`, by which they are known from now on.
    fn name_pages(&mut self, s: &Sequence) -> Vec<Arc<Content>> {
        let mut contents = s.held.contents.clone();
        for page in 0..s.computed.div_ceil(PAGE_LEN) {
            if page == contents.len() {
                let end = s.computed.min((page + 1) * PAGE_LEN);
                let (name, past, cells) = self.named(s, &contents, end);
                contents.push(self.contents.intern(name, &past, &cells));
            }
            // A page is not known where another one had the same content before, which may be gone by now.
            for (group, table) in
                self.groups.iter_mut().zip(&s.held.tables).filter(|(_, t)| t[page] != NO_PAGE)
            {
                if group.pages.find(&contents[page]).is_none() {
                    group.pages.publish_saved(table[page], &contents[page]);
                }
            }
        }
        contents
    }

    /// All that a sequence has to have before it goes on.
    fn parts_of_swapped(&self, out: &SwappedOut) -> Vec<WantedPart> {
        let mut parts = vec![];
        for (group, g) in self.groups.iter().enumerate() {
            let first = g.reach.first(out.computed) / PAGE_LEN;
            let seen = out.contents.iter().skip(first);
            parts.extend(seen.map(|c| WantedPart { content: c.clone(), part: CachePart::Page(group) }));
        }
        let last = out.contents.last().filter(|_| self.states.is_some());
        parts.extend(last.map(|c| WantedPart { content: c.clone(), part: CachePart::State }));
        parts
    }

    fn expect(&mut self, content: &Arc<Content>, part: CachePart) {
        self.swaps.awaited.entry((content.id, part)).or_default().count += 1;
        match part {
            CachePart::Page(group) => self.groups[group].pages.expect(content),
            CachePart::State => self.states.iter_mut().for_each(|states| states.expect(content)),
        }
    }

    /// A sequence no longer waits for what it had computed.
    fn give_up(&mut self, out: &SwappedOut) {
        for WantedPart { content, part } in self.parts_of_swapped(out) {
            let Some(awaited) = self.swaps.awaited.get_mut(&(content.id, part)) else { continue };
            awaited.count -= 1;
            if awaited.count > 0 {
                continue;
            }
            if awaited.stored {
                self.swaps.let_go.push(part.key(&content.name));
            }
            self.swaps.awaited.remove(&(content.id, part));
            // What has fewer cells than a page is nobody else's beginning.
            let full = out.contents.get(out.full_pages()).is_none_or(|partial| partial.id != content.id);
            let forget = !(full && self.reuse);
            match part {
                CachePart::Page(group) => self.groups[group].pages.give_up(&content, forget),
                CachePart::State => {
                    self.states.iter_mut().for_each(|states| states.give_up(&content, forget))
                }
            }
        }
    }

    /// Lets go of what a sequence waited for, wherever it is.
    pub(super) fn forget_swapped(&mut self, s: &mut Sequence) {
        let back = s.held.awaits.take_if(|fetch| fetch.returns());
        if let Some(FetchGoal::Return { out, .. }) = back.map(|back| back.goal) {
            self.give_up(&out);
        }
        if let Some(out) = s.swapped.take() {
            self.give_up(&out);
        }
    }

    /// Memory for a sequence that is about to run: a state, and all that it had when it was preempted. False when there is
    /// none.
    pub fn admit(&mut self, s: &mut Sequence) -> bool {
        let Some(out) = s.swapped.take() else { return self.take_state(s) };
        if self.has_swapped(&out) {
            return self.swap_in(s, *out);
        }
        self.swaps.lost += 1;
        self.give_up(&out);
        self.take_state(s)
    }

    /// True where all that a sequence waits for is in memory or in a store.
    fn has_swapped(&mut self, out: &SwappedOut) -> bool {
        let stored = |m: &Memory, id, part| m.swaps.awaited.get(&(id, part)).is_some_and(|a| a.stored);
        self.parts_of_swapped(out)
            .iter()
            .all(|w| stored(self, w.content.id, w.part) || self.holds(&w.content, w.part))
    }

    fn swap_in(&mut self, s: &mut Sequence, out: SwappedOut) -> bool {
        let mut wanted = vec![];
        if !(self.return_pages(s, &out, &mut wanted) && self.return_state(s, &out, &mut wanted)) {
            self.release_tables(s);
            s.swapped = Some(Box::new(out));
            return false;
        }
        let (wanted, places): (Vec<_>, Vec<_>) = wanted.into_iter().unzip();
        let fetch = PartFetch::new(wanted, FetchGoal::Return { out, places, began: Instant::now() });
        let ended = fetch.has_ended();
        s.held.awaits = Some(Box::new(fetch));
        if ended {
            self.swapped_in(s);
        }
        true
    }

    /// Gives `s` the pages that it had: those that are still known, and others for what has to be read. False when there
    /// are not enough.
    fn return_pages(
        &mut self,
        s: &mut Sequence,
        out: &SwappedOut,
        wanted: &mut Vec<(WantedPart, u32)>,
    ) -> bool {
        s.held.tables.clear();
        for group in &mut self.groups {
            let first = (group.reach.first(out.computed) / PAGE_LEN).min(out.contents.len());
            let mut table = vec![NO_PAGE; out.contents.len()];
            for (place, content) in table.iter_mut().zip(&out.contents).skip(first) {
                *place = group.pages.find(content).unwrap_or(NO_PAGE);
            }
            // All that are known are held before any is taken: that might be one of them.
            table.iter().filter(|&&p| p != NO_PAGE).for_each(|&p| group.pages.hold(p));
            s.held.tables.push(table);
        }
        for (g, (group, table)) in self.groups.iter_mut().zip(&mut s.held.tables).enumerate() {
            let first = group.reach.first(out.computed) / PAGE_LEN;
            let seen = table.iter_mut().zip(&out.contents).skip(first);
            for (place, content) in seen.filter(|(place, _)| **place == NO_PAGE) {
                let Some(page) = group.pages.take() else { return false };
                *place = page;
                wanted.push((WantedPart { content: content.clone(), part: CachePart::Page(g) }, page));
            }
        }
        true
    }

    /// Gives `s` the state that it had, or one that it is read into. False when there is none.
    fn return_state(
        &mut self,
        s: &mut Sequence,
        out: &SwappedOut,
        wanted: &mut Vec<(WantedPart, u32)>,
    ) -> bool {
        let (Some(states), Some(last)) = (&mut self.states, out.contents.last()) else { return true };
        let awaited = self.swaps.awaited.get(&(last.id, CachePart::State)).map_or(0, |a| a.count);
        // A snapshot behind a full page may be of use to others.
        if awaited == 1 && out.contents.len() > out.full_pages() {
            s.held.state = states.reclaim(last);
        }
        if s.held.state.is_none() {
            s.held.state = states.take();
            let from = states.find(last);
            // Before a copy into the state that was taken: what it held until then is whole.
            self.note_evicted();
            match (s.held.state, from) {
                (None, _) => return false,
                (Some(to), Some(from)) => self.copies.push(Copy::State { from: Some(from), to }),
                (Some(to), None) => {
                    wanted.push((WantedPart { content: last.clone(), part: CachePart::State }, to));
                }
            }
        }
        true
    }

    /// Gives all pages of a sequence back.
    pub(super) fn release_tables(&mut self, s: &mut Sequence) {
        // The end of a sequence is the least likely to be wanted again: it is evicted first.
        for (group, table) in self.groups.iter_mut().zip(std::mem::take(&mut s.held.tables)) {
            table.iter().rev().filter(|&&p| p != NO_PAGE).for_each(|&p| group.pages.release(p));
        }
    }

    /// All that `s` had is back: it goes on where it was.
    pub fn swapped_in(&mut self, s: &mut Sequence) {
        let back = s.held.awaits.take_if(|fetch| fetch.returns());
        let Some(FetchGoal::Return { out, .. }) = back.map(|back| back.goal) else { return };
        (s.computed, s.begun) = (out.computed, true);
        self.give_up(&out);
        self.swaps.returned += 1;
        if self.reuse {
            let full = &out.contents[..out.full_pages()];
            for (group, table) in self.groups.iter_mut().zip(&s.held.tables) {
                for (&page, content) in table.iter().zip(full).filter(|(page, _)| **page != NO_PAGE) {
                    if group.pages.find(content).is_none() {
                        group.pages.publish_saved(page, content);
                    }
                }
            }
            s.held.contents = full.to_vec();
        }
    }

    /// Something that `s` had is missing: it is computed again, from what the prefix cache has of it.
    pub fn not_swapped_in(&mut self, s: &mut Sequence) {
        self.release_tables(s);
        self.forget_swapped(s);
        self.swaps.lost += 1;
    }

    /// What a store has to get before the next step, or anything else that writes to the machine: memory of sequences that
    /// wait for it, which was taken.
    pub fn take_swapped(&mut self) -> Vec<PlacedPart> {
        let states = std::mem::take(&mut self.swaps.states);
        let states =
            states.into_iter().map(|(at, content)| PlacedPart { content, part: CachePart::State, at });
        let pages = self.groups.iter_mut().enumerate().flat_map(|(group, g)| {
            let part = CachePart::Page(group);
            g.pages.take_swapped().into_iter().map(move |(at, content)| PlacedPart { content, part, at })
        });
        let all: Vec<_> = states.chain(pages).collect();
        let lacks =
            |p: &PlacedPart| self.swaps.awaited.get(&(p.content.id, p.part)).is_some_and(|a| !a.stored);
        all.into_iter().filter(lacks).collect()
    }

    /// Notes that a store has a part.
    pub fn stored(&mut self, placed: &PlacedPart) {
        let awaited = self.swaps.awaited.get_mut(&(placed.content.id, placed.part));
        awaited.into_iter().for_each(|awaited| awaited.stored = true);
    }

    /// Names of what a store may let go of.
    pub fn take_let_go(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.swaps.let_go)
    }
}

#[cfg(test)]
impl Swaps {
    /// Parts that sequences wait for.
    pub(crate) fn awaited(&self) -> usize {
        self.awaited.len()
    }
}
