//! Memory of a step with drafts: the state that its rows leave behind, and pages of further chains.
//!
//! A branch shares the sequence's whole pages and has the last one, which both write, as a copy. When the drafts are
//! verified, the sequence goes on in the memory of one chain, and that of all others is free again.

use super::Memory;
use crate::{
    kv::{Pages, States},
    sequence::{Sequence, memory::BranchMemory},
};
use lamina_plan::{PAGE_LEN, SeqPlace, batch::Copy};

/// What is kept of a step's drafts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptDrafts {
    /// The chain along which the sequence goes on.
    pub chain: usize,
    /// Its first drafts, which are tokens now.
    pub accepted: usize,
}

impl Memory {
    /// Gives the rows of a step with drafts a state of their own to leave behind; false when there is none.
    pub fn take_next_state(&mut self, s: &mut Sequence) -> bool {
        s.held.next_state = self.states.as_mut().and_then(States::take);
        self.note_evicted();
        self.states.is_none() || s.held.next_state.is_some()
    }

    /// Gives a further chain of `drafts` drafts behind `rows` rows of `s` its memory; false when there is none.
    pub fn branch(&mut self, s: &mut Sequence, rows: usize, drafts: usize) -> bool {
        let (from, end) = (s.computed / PAGE_LEN, (s.computed + rows + drafts).div_ceil(PAGE_LEN));
        let mut branch = BranchMemory { drafts, from, pages: vec![], next_state: None };
        let complete = self.groups.iter_mut().all(|group| {
            let pages: Vec<_> = std::iter::from_fn(|| group.pages.take()).take(end - from).collect();
            branch.pages.push(pages);
            branch.pages.last().is_some_and(|pages| pages.len() == end - from)
        });
        branch.next_state = self.states.as_mut().filter(|_| complete).and_then(States::take);
        self.note_evicted();
        if !complete || (self.states.is_some() && branch.next_state.is_none()) {
            self.release_branch(branch);
            return false;
        }
        if from * PAGE_LEN < s.computed {
            for (group, (table, pages)) in s.held.tables.iter().zip(&branch.pages).enumerate() {
                self.copies.push(Copy::Page { group: group as u32, from: table[from], to: pages[0] });
            }
        }
        s.held.branches.push(branch);
        true
    }

    /// Block tables and states of a branch of `s`, for a batch.
    pub fn branch_place(&self, s: &Sequence, branch: &BranchMemory) -> SeqPlace {
        let table = |(table, own): (&Vec<u32>, &Vec<u32>)| [&table[..branch.from], own].concat();
        let pages = s.held.tables.iter().zip(&branch.pages).map(table).collect();
        SeqPlace { pages, next_state: branch.next_state, ..self.place(s) }
    }

    /// Leaves `s` the memory of the chain along which it goes on. False where the step's rows have to be computed again,
    /// since that chain's state has seen a wrong token: the one before them is kept then.
    pub fn keep_drafts(&mut self, s: &mut Sequence, drafts: usize, kept: KeptDrafts) -> bool {
        if s.held.next_state.is_some() && kept.accepted < self.drafts_of(s, drafts, kept.chain) {
            self.drop_drafts(s);
            return false;
        }
        if let Some(i) = kept.chain.checked_sub(1) {
            // What the branch has takes the place of what it stands beside, which goes with the other branches.
            let branch = &mut s.held.branches[i];
            std::mem::swap(&mut s.held.next_state, &mut branch.next_state);
            for (table, own) in s.held.tables.iter_mut().zip(&mut branch.pages) {
                let tail = table.split_off(branch.from);
                table.append(&mut std::mem::replace(own, tail));
            }
        }
        if s.held.next_state.is_some() {
            std::mem::swap(&mut s.held.state, &mut s.held.next_state);
        }
        self.drop_drafts(s);
        true
    }

    fn drafts_of(&self, s: &Sequence, first: usize, chain: usize) -> usize {
        chain.checked_sub(1).map_or(first, |i| s.held.branches[i].drafts)
    }

    /// Takes back what only the drafts of `s` needed.
    pub(super) fn drop_drafts(&mut self, s: &mut Sequence) {
        for branch in std::mem::take(&mut s.held.branches) {
            self.release_branch(branch);
        }
        self.release_state(s.held.next_state.take());
    }

    fn release_branch(&mut self, branch: BranchMemory) {
        let release =
            |(pages, own): (&mut Pages, Vec<u32>)| own.into_iter().for_each(|page| pages.release(page));
        self.groups.iter_mut().map(|g| &mut g.pages).zip(branch.pages).for_each(release);
        self.release_state(branch.next_state);
    }

    fn release_state(&mut self, state: Option<u32>) {
        self.states.iter_mut().zip(state).for_each(|(states, state)| states.release(state));
    }
}
