//! Block tables of sequences: pages and states that they hold, share, copy on write, publish and give back.
//!
//! Nothing is copied here. Copies go out as a list, which the machine works off in order before the next step's rows.

mod beams;
mod branches;
mod compress;
mod copies;
mod disk;
mod growth;
mod session;
mod swap;

pub(crate) use branches::KeptDrafts;
pub(crate) use disk::PlacedPart;
pub(crate) use swap::Swaps;

use self::copies::Copies;
use crate::{
    kv::{
        Pages, States,
        content::{Cells, Content, Contents, Hash, Name, Namer, Past, sha256},
    },
    sequence::{Sequence, memory::SeqMemory},
};
use lamina_plan::{
    GroupSpec, KeptCells, Limits, NO_PAGE, PAGE_LEN, Plan, Reach, SeqPlace, View, batch::Copy,
};
use std::sync::Arc;

/// Name of all that the numbers of every sequence depend on, but for the weights.
fn fingerprint(plan: &Plan, limits: &Limits) -> Name {
    sha256(format!("{plan:?} {:?} {PAGE_LEN}", limits.kv).as_bytes(), &Cells::from(&[][..]))
}

/// Pages of a layer group.
struct Group {
    reach: Reach,
    pages: Pages,
}

/// Pages and states of a machine.
pub(crate) struct Memory {
    groups: Vec<Group>,
    contents: Contents,
    /// None for models without recurrent layers.
    states: Option<States>,
    /// Most rows of a step.
    rows: usize,
    state_count: usize,
    /// Prefixes are looked up and published.
    reuse: bool,
    pub copies: Copies,
    /// Contents go to a store on disk.
    saves: bool,
    /// States whose snapshots a store has to get before they are written to.
    evicted: Vec<(u32, Arc<Content>)>,
    /// What preempted sequences wait for.
    pub swaps: Swaps,
}

impl Memory {
    /// The empty memory of a machine; `reuse` keeps computed beginnings for later sequences.
    pub fn new(plan: &Plan, limits: &Limits, reuse: bool) -> Memory {
        Memory::with_hash(plan, limits, reuse, sha256)
    }

    /// [`Memory::new`] with another hash of contents; what is found does not depend on it.
    pub fn with_hash(plan: &Plan, limits: &Limits, reuse: bool, hash: Hash) -> Memory {
        let states = (plan.kv.state_len() > 0).then(|| States::new(limits.states));
        let group = |(g, &pages): (&GroupSpec, &usize)| Group { reach: g.reach, pages: Pages::new(pages) };
        Memory {
            groups: plan.kv.groups.iter().zip(&limits.pages).map(group).collect(),
            contents: Contents::new(Namer::new(hash, fingerprint(plan, limits))),
            states,
            rows: limits.rows,
            state_count: limits.states,
            reuse,
            copies: Copies::default(),
            saves: false,
            evicted: vec![],
            swaps: Swaps::default(),
        }
    }

    /// Puts the name of the weights before the names of all pages to come.
    pub fn identify(&mut self, weights: &Name) {
        self.contents.identify(weights);
    }

    /// What names the pages; none where computed beginnings are not kept.
    pub fn namer(&self) -> Option<Namer> {
        self.reuse.then(|| self.contents.namer())
    }

    /// What names the pages of sequences, whether or not they are kept for others.
    pub fn content_namer(&self) -> Namer {
        self.contents.namer()
    }

    /// Pages in all, over the layer groups.
    pub fn pages(&self) -> usize {
        self.groups.iter().map(|g| g.pages.len()).sum()
    }

    /// Pages that nobody holds.
    pub fn free_pages(&self) -> usize {
        self.groups.iter().map(|g| g.pages.free()).sum()
    }

    /// Of these, pages that can be found by what they hold.
    pub fn cached_pages(&self) -> usize {
        self.groups.iter().map(|g| g.pages.cached()).sum()
    }

    /// States that sequences hold.
    #[cfg(test)]
    pub fn states_in_use(&self) -> usize {
        self.states.as_ref().map_or(0, |states| self.state_count - states.unheld())
    }

    /// Tokens of the longest sequence that fits when it is alone.
    pub fn longest(&self) -> usize {
        let one = |g: &Group| {
            // A window that fits once with a page to write to holds any sequence.
            let windowed = g.reach != Reach::All && g.pages.len() >= g.reach.pages(usize::MAX, 1);
            if windowed { usize::MAX } else { g.pages.len() * PAGE_LEN }
        };
        self.groups.iter().map(one).min().unwrap_or(usize::MAX)
    }

    /// Takes a state for a sequence that is about to run; false when there is none.
    fn take_state(&mut self, s: &mut Sequence) -> bool {
        s.held.state = self.states.as_mut().and_then(States::take);
        self.note_evicted();
        self.states.is_none() || s.held.state.is_some()
    }

    /// Takes over the pages (and the state) that earlier sequences have computed for the same beginning.
    ///
    /// The beginning is the longest one for which every layer group still has what the rows behind it see.
    pub fn adopt(&mut self, s: &mut Sequence) {
        s.held.tables = vec![vec![]; self.groups.len()];
        s.held.sums = Memory::empty_sums(s);
        let (contents, snapshot) = self.beginning(s);
        if let Some(to) = s.held.state {
            self.copies.push(Copy::State { from: snapshot, to });
        }
        s.computed = contents.len() * PAGE_LEN;
        s.cached = s.computed.min(s.prompt_len);
        for (group, table) in self.groups.iter_mut().zip(&mut s.held.tables) {
            let first = group.reach.first(s.computed) / PAGE_LEN;
            for (i, content) in contents.iter().enumerate() {
                let page = if i < first { None } else { group.pages.find(content) };
                page.into_iter().for_each(|p| group.pages.hold(p));
                table.push(page.unwrap_or(NO_PAGE));
            }
        }
        s.held.contents = contents;
    }

    /// The longest beginning of `s` that is computed, and the state behind it where the model has states.
    fn beginning(&mut self, s: &Sequence) -> (Vec<Arc<Content>>, Option<u32>) {
        let mut contents = match self.reuse {
            true => self.contents_of(s, s.adoptable() / PAGE_LEN, |_| false),
            false => vec![],
        };
        while let Some(last) = contents.last() {
            let state = self.states.as_mut().map(|states| states.find(last));
            if state != Some(None) && self.has_all(&contents) {
                return (contents, state.flatten());
            }
            contents.pop();
        }
        (contents, None)
    }

    /// Tokens of that beginning. States behind it count as used.
    pub fn cached_tokens(&mut self, s: &Sequence) -> usize {
        self.beginning(s).0.len() * PAGE_LEN
    }

    /// Contents of the first `pages` full pages of `s` up to the first one that is neither known nor `elsewhere`.
    fn contents_of(
        &mut self,
        s: &Sequence,
        pages: usize,
        elsewhere: impl Fn(usize) -> bool,
    ) -> Vec<Arc<Content>> {
        let mut found = vec![];
        for page in 0..pages {
            let (name, past, cells) = self.named(s, &found, (page + 1) * PAGE_LEN);
            let content = match self.contents.find(&name, &past, &cells) {
                Some(content) => content,
                None if elsewhere(page) => self.contents.intern(name, &past, &cells),
                None => break,
            };
            found.push(content);
        }
        found
    }

    /// What the page of `s` behind `before` holds up to token `end`, and its name: made beforehand, but for pages of its answer
    /// and those that are not full.
    fn named<'a>(&self, s: &'a Sequence, before: &[Arc<Content>], end: usize) -> (Name, Past, Cells<'a>) {
        let start = before.len() * PAGE_LEN;
        let past = before.last().map_or_else(|| Past::Root(s.root.clone()), |c| Past::Page(c.clone()));
        let cells = s.cells(start..end);
        let known = s.prompt_pages.names.get(before.len()).filter(|_| end - start == PAGE_LEN);
        let name = known.copied().unwrap_or_else(|| self.contents.namer().name(&past, &cells));
        (name, past, cells)
    }

    /// True when every group has the pages that the first row behind `contents` sees.
    fn has_all(&self, contents: &[Arc<Content>]) -> bool {
        self.groups.iter().all(|g| {
            let first = g.reach.first(contents.len() * PAGE_LEN) / PAGE_LEN;
            contents[first.min(contents.len())..].iter().all(|c| g.pages.find(c).is_some())
        })
    }

    /// Rows that `s` can use in one step.
    pub fn most_rows(&self, s: &Sequence) -> usize {
        let most = self.most_tokens(s);
        // What the cache has of it is found first: rows that it has are never made.
        if s.begun { s.come(most) } else { most }
    }

    fn most_tokens(&self, s: &Sequence) -> usize {
        if s.held.awaits.is_some() {
            return 0;
        }
        if let Some(beams) = s.beams() {
            return beams.rows(self.rows);
        }
        let closing = s.closing();
        // Prompts of recurrent models stop at their last page boundary, so that a snapshot can be taken there.
        let last = closing.as_ref().map_or(s.prompt_len - 1, |closing| closing.start);
        let boundary = (self.states.is_some() && self.reuse).then_some(last / PAGE_LEN * PAGE_LEN);
        let stops = boundary.into_iter().chain(closing.into_iter().flat_map(|c| [c.start, c.end]));
        let next = stops.filter(|&stop| stop > s.computed).min();
        next.map_or(s.pending(), |stop| s.pending().min(stop - s.computed))
    }

    /// True when there are pages for the first rows of `newcomer` beside those that `running` ones take next, so that
    /// it does not push others out at once.
    pub fn fits(&self, newcomer: &Sequence, running: &[Sequence]) -> bool {
        self.groups.iter().enumerate().all(|(g, group)| {
            let all = running.iter().chain([newcomer]);
            all.map(|s| self.next_pages(g, s)).sum::<usize>() <= group.pages.free()
        })
    }

    /// Pages of a group that `s` takes in its next step at most, and one to spare.
    fn next_pages(&self, group: usize, s: &Sequence) -> usize {
        if let Some(beams) = s.beams() {
            // Each may write to a page that it shares, and to those behind it.
            return beams.search.beams()
                + (beams.rows(self.rows).div_ceil(PAGE_LEN)).max(beams.search.beams());
        }
        // What comes back takes all of its pages at once.
        let computed = s.swapped.as_ref().map_or(s.computed, |out| out.computed);
        let end = computed + (s.tokens.len() - computed).min(self.rows);
        let gone = if s.swapped.is_some() { self.groups[group].reach.first(computed) / PAGE_LEN } else { 0 };
        let have = s.held.tables.get(group).map_or(gone, Vec::len);
        end.div_ceil(PAGE_LEN).saturating_sub(have) + 1 + s.beam_pages()
    }

    /// Block tables and state of `s`, for a batch.
    pub fn place(&self, s: &Sequence) -> SeqPlace {
        SeqPlace {
            pages: s.held.tables.clone(),
            state: s.held.state.unwrap_or(0),
            next_state: s.held.next_state,
            // Tables for long contexts stay those of the prompt as it was given.
            prompt_len: s.shifted.prompt as u32,
            decode_from: s.decode_from().map(|first| first as u32),
            lora: s.lora.clone(),
            view: View::InOrder,
            kept: Memory::kept_by(s),
        }
    }

    /// Notes that all rows of `s` up to `s.computed` were computed, for tokens that are kept: publishes what has become
    /// full, and gives back pages that no later row sees, or that only wrong drafts have written.
    pub fn computed(&mut self, s: &mut Sequence) {
        self.drop_unselected(s);
        self.publish(s);
        for (group, table) in self.groups.iter_mut().zip(&mut s.held.tables) {
            let beyond = s.computed.div_ceil(PAGE_LEN).min(table.len());
            table.drain(beyond..).for_each(|page| group.pages.release(page));
        }
        self.drop_passed(&mut s.held.tables, s.computed);
        self.drop_passed_of_beams(s);
    }

    /// Publishes the pages of `s` that have become full, and takes a snapshot of its state at a boundary.
    fn publish(&mut self, s: &mut Sequence) {
        // What follows selected cells is nobody else's.
        if !self.reuse || s.held.kept != KeptCells::All {
            return;
        }
        while (s.held.contents.len() + 1) * PAGE_LEN <= s.computed {
            let n = s.held.contents.len();
            let (name, past, cells) = self.named(s, &s.held.contents, (n + 1) * PAGE_LEN);
            let content = self.contents.intern(name, &past, &cells);
            for (group, table) in self.groups.iter_mut().zip(&s.held.tables).filter(|(_, t)| t[n] != NO_PAGE)
            {
                group.pages.publish(table[n], &content);
            }
            s.held.contents.push(content);
        }
        if let (Some(states), Some(state), Some(last)) =
            (&mut self.states, s.held.state, s.held.contents.last())
            && s.computed == s.held.contents.len() * PAGE_LEN
            && let Some(to) = states.snapshot(last)
        {
            if self.saves && s.computed <= s.prompt_len {
                states.save(last);
            }
            self.note_evicted();
            self.copies.push(Copy::State { from: Some(state), to });
        }
    }

    /// Gives `fork` the memory of `of`: all pages are shared, a state is copied. False when there is no state.
    pub fn share(&mut self, of: &SeqMemory, fork: &mut Sequence) -> bool {
        if !self.take_state(fork) {
            return false;
        }
        if let Some(to) = fork.held.state {
            self.copies.push(Copy::State { from: of.state, to });
        }
        fork.held.tables = of.tables.clone();
        fork.held.contents = of.contents.clone();
        fork.held.kept = of.kept.clone();
        for (group, table) in self.groups.iter_mut().zip(&of.tables) {
            table.iter().filter(|&&p| p != NO_PAGE).for_each(|&p| group.pages.hold(p));
        }
        true
    }

    /// Takes the memory of a sequence back, and what it waits for. Its full pages can still be found by their tokens.
    pub fn free(&mut self, s: &mut Sequence) {
        self.forget_swapped(s);
        self.drop_drafts(s);
        s.restart_beams();
        std::mem::take(&mut s.held.beams).into_iter().for_each(|beam| self.release_beam(beam));
        self.release_tables(s);
        let held = std::mem::take(&mut s.held);
        held.awaits.into_iter().for_each(|fetch| self.release(&fetch.pages));
        self.save_last_state(&held.contents);
        s.computed = 0;
        if let Some(states) = &mut self.states {
            held.state.into_iter().for_each(|state| states.release(state));
        }
    }

    /// What is kept of earlier requests may be what a machine has failed on: it is computed anew.
    pub fn distrust(&mut self) {
        self.groups.iter_mut().for_each(|group| group.pages.distrust());
    }

    /// A step has failed and nobody holds memory any more: copies that may not have been done are forgotten, with the
    /// snapshots that they would have made.
    pub fn step_failed(&mut self) {
        self.copies.clear();
        self.evicted.clear();
        self.swaps.states.clear();
        if let Some(states) = &mut self.states {
            *states = States::new(self.state_count);
        }
    }
}
