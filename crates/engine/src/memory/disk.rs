//! Pages and states on their way to a store on disk and back. Nothing is read or written here: the engine is told what to
//! export before the next step, and where to put what was read.

use super::Memory;
use crate::{
    kv::{cache_part::CachePart, content::Content},
    part_fetch::{FetchGoal, PartFetch, WantedPart},
    sequence::Sequence,
};
use lamina_plan::PAGE_LEN;
use std::sync::Arc;

/// A part of a content, and the page or the state that holds it.
#[derive(Debug)]
pub(crate) struct PlacedPart {
    pub content: Arc<Content>,
    pub part: CachePart,
    pub at: u32,
}

impl Memory {
    /// From now on contents go to a store on disk.
    pub fn save(&mut self) {
        self.saves = self.reuse;
        self.groups.iter_mut().filter(|_| self.reuse).for_each(|g| g.pages.save());
    }

    /// What a store keeps of each content.
    pub fn parts(&self) -> Vec<CachePart> {
        (0..self.groups.len())
            .map(CachePart::Page)
            .chain(self.states.as_ref().map(|_| CachePart::State))
            .collect()
    }

    /// Takes the longest beginning of `s` over that is in memory; where a store on disk has a longer one, it is fetched
    /// first.
    pub fn begin(&mut self, s: &mut Sequence) {
        s.held.awaits = self.plan_fetch(s).map(Box::new);
        if s.held.awaits.is_none() {
            self.adopt(s);
            s.begun = true;
        }
    }

    /// What has to be read for a beginning of `s` that is longer than the one in memory.
    fn plan_fetch(&mut self, s: &Sequence) -> Option<PartFetch> {
        if !(self.saves && s.prompt_pages.are_on_disk() && s.reads_cache()) {
            return None;
        }
        let contents = self.nameable(s);
        let in_memory =
            |memory: &mut Memory, page: usize, part: CachePart| memory.holds(&contents[page], part);
        let reached = self.longest_beginning(contents.len(), in_memory);
        let anywhere = |memory: &mut Memory, page: usize, part: CachePart| {
            memory.holds(&contents[page], part) || s.prompt_pages.is_on_disk(page, part)
        };
        let end = self.longest_beginning(contents.len(), anywhere);
        (end > reached).then(|| self.missing(&contents[..end], reached * PAGE_LEN))
    }

    /// Contents of the prompt's pages up to the first of which neither memory nor disk has anything.
    pub(super) fn nameable(&mut self, s: &Sequence) -> Vec<Arc<Content>> {
        let parts = self.parts();
        let on_disk = |page| parts.iter().any(|&part| s.prompt_pages.is_on_disk(page, part));
        self.contents_of(s, s.prompt_pages.names.len(), on_disk)
    }

    /// Pages of the longest beginning, of at most `most` pages, of which `has` all that the row behind it needs.
    pub(super) fn longest_beginning(
        &mut self,
        most: usize,
        mut has: impl FnMut(&mut Memory, usize, CachePart) -> bool,
    ) -> usize {
        // Pages in a row that each group has, up to each page.
        let mut runs = vec![vec![0; most + 1]; self.groups.len()];
        for (group, run) in runs.iter_mut().enumerate() {
            for page in 0..most {
                run[page + 1] = if has(self, page, CachePart::Page(group)) { run[page] + 1 } else { 0 };
            }
        }
        let whole = |memory: &mut Memory, n: usize| {
            let seen = |g: usize| n - (memory.groups[g].reach.first(n * PAGE_LEN) / PAGE_LEN).min(n);
            (0..memory.groups.len()).all(|g| runs[g][n] >= seen(g))
        };
        let recurrent = self.states.is_some();
        (1..=most)
            .rev()
            .find(|&n| whole(self, n) && (!recurrent || has(self, n - 1, CachePart::State)))
            .unwrap_or(0)
    }

    /// True when memory has a part of a content.
    pub(super) fn holds(&mut self, content: &Content, part: CachePart) -> bool {
        match part {
            CachePart::Page(group) => self.groups[group].pages.find(content).is_some(),
            CachePart::State => self.states.as_mut().is_some_and(|states| states.find(content).is_some()),
        }
    }

    /// What memory lacks of a beginning, of which it has `in_memory` tokens in a row.
    fn missing(&mut self, contents: &[Arc<Content>], in_memory: usize) -> PartFetch {
        let mut missing = PartFetch::new(vec![], FetchGoal::Begin { in_memory });
        let firsts: Vec<usize> =
            self.groups.iter().map(|g| g.reach.first(contents.len() * PAGE_LEN) / PAGE_LEN).collect();
        for (page, content) in contents.iter().enumerate() {
            for (group, _) in firsts.iter().enumerate().filter(|(_, first)| page >= **first) {
                self.look_for(content, CachePart::Page(group), &mut missing);
            }
        }
        if let Some(last) = contents.last().filter(|_| self.states.is_some()) {
            self.look_for(last, CachePart::State, &mut missing);
        }
        missing
    }

    /// Adds a part to those that are missing where memory lacks it; a page that is there is held.
    pub(super) fn look_for(&mut self, content: &Arc<Content>, part: CachePart, missing: &mut PartFetch) {
        if !self.holds(content, part) {
            return missing.wanted.push(WantedPart { content: content.clone(), part });
        }
        if let CachePart::Page(group) = part
            && let Some(page) = self.groups[group].pages.find(content)
        {
            self.groups[group].pages.hold(page);
            missing.pages.push((group, page));
        }
    }

    /// Where to put a part that was read, for the sequence that waits for it: a page or a state of its own. None where
    /// there is room for no more.
    pub fn take_for(&mut self, fetch: &mut PartFetch, place: usize) -> Option<PlacedPart> {
        let WantedPart { content, part } = &fetch.wanted[place];
        let at = match *part {
            CachePart::Page(group) => {
                let at = self.groups[group].pages.take()?;
                fetch.pages.push((group, at));
                at
            }
            CachePart::State => {
                let states = self.states.as_mut()?;
                states.forget(content);
                let at = states.snapshot(content)?;
                self.note_evicted();
                at
            }
        };
        Some(PlacedPart { content: content.clone(), part: *part, at })
    }

    /// Notes whether a part was put where [`Memory::take_for`] said: only then it is found.
    pub fn imported(&mut self, placed: &PlacedPart, done: bool) {
        match placed.part {
            CachePart::Page(group) if done => {
                self.groups[group].pages.publish_saved(placed.at, &placed.content)
            }
            CachePart::Page(_) => {}
            CachePart::State => {
                let Some(states) = &mut self.states else { return };
                if done { states.saved(&placed.content) } else { states.forget(&placed.content) }
            }
        }
    }

    /// Ends the waiting of `s`: it takes over what is in memory by now.
    pub fn fetched(&mut self, s: &mut Sequence) {
        let Some(fetch) = s.held.awaits.take_if(|fetch| !fetch.returns()) else { return };
        self.adopt(s);
        s.begun = true;
        if let FetchGoal::Begin { in_memory } = fetch.goal {
            s.cached_on_disk = s.cached.saturating_sub(in_memory);
        }
        self.release(&fetch.pages);
    }

    /// Lets go of pages that were held for a sequence that waited, the last one first.
    pub(super) fn release(&mut self, pages: &[(usize, u32)]) {
        pages.iter().rev().for_each(|&(group, page)| self.groups[group].pages.release(page));
    }

    /// The last snapshot of a sequence that ends goes to the store: whoever goes on from there needs it.
    pub(super) fn save_last_state(&mut self, contents: &[Arc<Content>]) {
        if let Some(states) = self.states.as_mut().filter(|_| self.saves) {
            // True for the first that has a snapshot.
            let _ = contents.iter().rev().any(|content| states.save(content));
        }
    }

    /// Notes the snapshots whose states were just taken, but for those that no copy has filled yet.
    pub(super) fn note_evicted(&mut self) {
        let Some(states) = &mut self.states else { return };
        self.evicted.extend(states.take_evicted().into_iter().filter(|(at, _)| self.copies.have_filled(*at)));
        self.swaps
            .states
            .extend(states.take_swapped().into_iter().filter(|(at, _)| self.copies.have_filled(*at)));
    }

    /// What a store has to get before the next step, or anything else that writes to the machine.
    pub fn take_evicted(&mut self) -> Vec<PlacedPart> {
        let states = std::mem::take(&mut self.evicted).into_iter().map(|(at, c)| (CachePart::State, at, c));
        let pages = self.groups.iter_mut().enumerate().flat_map(|(group, g)| {
            g.pages.take_evicted().into_iter().map(move |(at, c)| (CachePart::Page(group), at, c))
        });
        states.chain(pages).map(|(part, at, content)| PlacedPart { content, part, at }).collect()
    }

    /// True where a store has to get something, also what no copy has filled yet.
    pub fn has_unsaved(&self) -> bool {
        self.groups.iter().any(|g| g.pages.has_unsaved())
            || self.states.as_ref().is_some_and(|states| states.unsaved().next().is_some())
    }

    /// The next thing that a store has to get, which counts as saved from now on.
    pub fn next_unsaved(&mut self) -> Option<PlacedPart> {
        for (group, g) in self.groups.iter_mut().enumerate() {
            if let Some((at, content)) = g.pages.next_unsaved() {
                return Some(PlacedPart { content, part: CachePart::Page(group), at });
            }
        }
        let states = self.states.as_mut()?;
        let (at, content) =
            states.unsaved().find(|(at, _)| self.copies.have_filled(*at)).map(|(at, c)| (at, c.clone()))?;
        states.saved(&content);
        Some(PlacedPart { content, part: CachePart::State, at })
    }
}
