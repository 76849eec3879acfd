//! The memory of sequences: who holds which pages and states, what is shared, and what must be copied.
//!
//! Nothing is copied here. Copies go out as a list, which the machine works off in order before the next step's rows.

use crate::{
    held::Held,
    kv::{Pages, States},
    sequence::Sequence,
};
use lamina_plan::{Limits, PAGE_LEN, Plan, SeqPlace, View, batch::Copy};

/// Pages and states of a machine.
pub(crate) struct Memory {
    pages: Pages,
    /// None for models without recurrent layers.
    states: Option<States>,
    /// Most rows of a step.
    rows: usize,
    state_count: usize,
    /// Prefixes are looked up and published.
    reuse: bool,
    copies: Vec<Copy>,
}

impl Memory {
    /// The empty memory of a machine; `reuse` keeps computed beginnings for later sequences.
    pub fn new(plan: &Plan, limits: &Limits, reuse: bool) -> Memory {
        let states = (plan.kv.state_len() > 0).then(|| States::new(limits.states));
        let pages = Pages::new(limits.pages.first().copied().unwrap_or(0));
        Memory { pages, states, rows: limits.rows, state_count: limits.states, reuse, copies: vec![] }
    }

    /// Pages in all.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Pages that nobody holds.
    pub fn free_pages(&self) -> usize {
        self.pages.free()
    }

    /// The copies that are due, in order.
    pub fn take_copies(&mut self) -> Vec<Copy> {
        std::mem::take(&mut self.copies)
    }

    /// Takes a state for a sequence that is about to run; false when there is none.
    pub fn take_state(&mut self, s: &mut Sequence) -> bool {
        s.held.state = self.states.as_mut().and_then(States::take);
        self.states.is_none() || s.held.state.is_some()
    }

    /// Takes over the pages (and the state) that earlier sequences have computed for the same beginning.
    pub fn adopt(&mut self, s: &mut Sequence) {
        if self.reuse && s.reads_cache() {
            (s.held.pages, s.held.hashes) = self.pages.find(s.salt, &s.tokens, s.tokens.len() - 1);
        }
        let mut snapshot = None;
        if let Some(states) = &mut self.states {
            // Pages are of use only up to a boundary whose state is known.
            while let Some(&hash) = s.held.hashes.last() {
                snapshot = states.find(hash);
                if snapshot.is_some() {
                    break;
                }
                s.held.hashes.pop();
                s.held.pages.pop().into_iter().for_each(|p| self.pages.release(p));
            }
        }
        if let Some(to) = s.held.state {
            self.copies.push(Copy::State { from: snapshot, to });
        }
        s.computed = s.held.pages.len() * PAGE_LEN;
        s.cached = s.computed.min(s.prompt_len);
    }

    /// Rows that `s` can use in one step.
    pub fn most_rows(&self, s: &Sequence) -> usize {
        let n = s.pending();
        if self.states.is_none() || !self.reuse {
            return n;
        }
        // Prompts of recurrent models stop at their last page boundary, so that a snapshot can be taken there.
        let boundary = (s.prompt_len - 1) / PAGE_LEN * PAGE_LEN;
        if s.computed < boundary { n.min(boundary - s.computed) } else { n }
    }

    /// Pages that `s` takes in its next step at most, and one to spare.
    pub fn next_pages(&self, s: &Sequence) -> usize {
        let end = s.computed + s.pending().min(self.rows);
        end.div_ceil(PAGE_LEN).saturating_sub(s.held.pages.len()) + 1
    }

    /// Makes room for up to `rows` more rows of `s`, in pages that nobody else holds; returns the rows that fit.
    pub fn grow(&mut self, s: &mut Sequence, rows: usize) -> usize {
        let (first, end) = (s.computed / PAGE_LEN, (s.computed + rows).div_ceil(PAGE_LEN));
        for page in first..end {
            let there = match s.held.pages.get(page) {
                Some(_) => self.copy_on_write(s, page),
                None => self.pages.take().map(|new| s.held.pages.push(new)).is_some(),
            };
            if !there {
                return (page * PAGE_LEN).saturating_sub(s.computed);
            }
        }
        rows
    }

    /// Replaces a page of `s` that others hold too; false when there is none to take for it.
    fn copy_on_write(&mut self, s: &mut Sequence, page: usize) -> bool {
        let from = s.held.pages[page];
        if !self.pages.shared(from) {
            return true;
        }
        let Some(to) = self.pages.take() else { return false };
        if page * PAGE_LEN < s.computed {
            self.copies.push(Copy::Page { group: 0, from, to });
        }
        self.pages.release(from);
        s.held.pages[page] = to;
        true
    }

    /// Where the machine finds what `s` holds.
    pub fn place(&self, s: &Sequence) -> SeqPlace {
        SeqPlace {
            pages: vec![s.held.pages.clone()],
            state: s.held.state.unwrap_or(0),
            prompt_len: s.prompt_len as u32,
            adapters: s.lora.clone(),
            view: View::InOrder,
        }
    }

    /// Publishes the pages of `s` that have become full, and takes a snapshot of its state at a boundary.
    ///
    /// All tokens up to `s.computed` must be kept ones, and their rows computed.
    pub fn publish(&mut self, s: &mut Sequence) {
        if !self.reuse {
            return;
        }
        while (s.held.hashes.len() + 1) * PAGE_LEN <= s.computed {
            let n = s.held.hashes.len();
            let before = s.held.hashes.last().copied().unwrap_or(s.salt);
            let tokens = &s.tokens[n * PAGE_LEN..(n + 1) * PAGE_LEN];
            s.held.hashes.push(self.pages.publish(s.held.pages[n], before, tokens));
        }
        if let (Some(states), Some(state), Some(&hash)) =
            (&mut self.states, s.held.state, s.held.hashes.last())
            && s.computed == s.held.hashes.len() * PAGE_LEN
            && let Some(to) = states.snapshot(hash)
        {
            self.copies.push(Copy::State { from: Some(state), to });
        }
    }

    /// Gives `fork` the memory of `of`: all pages are shared, a state is copied. False when there is no state.
    pub fn share(&mut self, of: &Held, fork: &mut Sequence) -> bool {
        if !self.take_state(fork) {
            return false;
        }
        if let Some(to) = fork.held.state {
            self.copies.push(Copy::State { from: of.state, to });
        }
        fork.held.pages = of.pages.clone();
        fork.held.hashes = of.hashes.clone();
        fork.held.pages.iter().for_each(|&p| self.pages.hold(p));
        true
    }

    /// Takes the memory of a sequence back. Its full pages can still be found by their tokens.
    pub fn free(&mut self, s: &mut Sequence) {
        let held = std::mem::take(&mut s.held);
        // The end of a sequence is the least likely to be wanted again: it is evicted first.
        held.pages.iter().rev().for_each(|&p| self.pages.release(p));
        s.computed = 0;
        if let (Some(states), Some(state)) = (&mut self.states, held.state) {
            states.release(state);
        }
    }

    /// A step has failed and nobody holds memory any more: copies that may not have been done are forgotten, with the
    /// snapshots that they would have made.
    pub fn step_failed(&mut self) {
        self.copies.clear();
        if let Some(states) = &mut self.states {
            *states = States::new(self.state_count);
        }
    }
}
