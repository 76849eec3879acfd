//! Who gets how many rows of the next step, and the pages for them.
//!
//! Running sequences come first, in the order of their arrival: one row each while they decode, the rest of the rows to
//! prompts. When pages run out, the sequence that arrived last gives all of its pages back and is computed again later.

use crate::{
    kv::{Pages, States},
    sequence::{Purpose, Sequence},
};
use lamina_plan::{Limits, PAGE_LEN, Plan, Step};
use std::collections::VecDeque;

/// Rows of one sequence in the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Index into the running sequences.
    pub seq: usize,
    /// Rows from `computed` on.
    pub rows: usize,
}

/// Waiting and running sequences and their memory.
pub(crate) struct Schedule {
    /// In the order of arrival.
    pub waiting: VecDeque<Sequence>,
    /// In the order of arrival.
    pub running: Vec<Sequence>,
    /// Cache pages.
    pub pages: Pages,
    /// Recurrent states; none for models without.
    pub states: Option<States>,
    limits: Limits,
    /// Prefixes are looked up and published.
    reuse: bool,
}

impl Schedule {
    /// An empty schedule for a machine.
    pub fn new(plan: &Plan, limits: Limits, reuse: bool) -> Schedule {
        let states = (plan.kv.state_len() > 0).then(|| States::new(limits.states));
        Schedule {
            waiting: VecDeque::new(),
            running: vec![],
            pages: Pages::new(limits.pages.first().copied().unwrap_or(0)),
            states,
            limits,
            reuse,
        }
    }

    /// Divides the rows of the next step. Copies shared pages that are about to be written.
    pub fn next(&mut self, step: &mut dyn Step) -> lamina_plan::backend::Result<Vec<Share>> {
        let mut shares = self.alone(step)?;
        if !shares.is_empty() {
            return Ok(shares);
        }
        let (mut rows, mut selected) = (self.limits.rows, self.limits.selected);
        let mut i = 0;
        while i < self.running.len() && rows > 0 && selected > 0 {
            let want = self.want(i, rows, selected);
            match self.give_pages(i, want, step)? {
                Some(got) if got > 0 => {
                    rows -= got;
                    selected -= self.selected_rows(i, got);
                    shares.push(Share { seq: i, rows: got });
                    i += 1;
                }
                Some(_) => i += 1,
                // The sequence itself was put back: the next one has taken its place.
                None => {}
            }
        }
        while rows > 0 && selected > 0 && self.running.len() < self.limits.selected && self.admit(step)? {
            let i = self.running.len() - 1;
            if self.running[i].is_hidden() {
                // The next step is its own, or this one if nobody else has a share.
                return if shares.is_empty() { self.alone(step) } else { Ok(shares) };
            }
            let want = self.want(i, rows, selected);
            match self.give_pages(i, want, step)? {
                Some(got) if got > 0 => {
                    rows -= got;
                    selected -= self.selected_rows(i, got);
                    shares.push(Share { seq: i, rows: got });
                }
                _ => break,
            }
        }
        Ok(shares)
    }

    /// A pass for hidden rows runs alone: its step ends in the middle of the plan.
    fn alone(&mut self, step: &mut dyn Step) -> lamina_plan::backend::Result<Vec<Share>> {
        let Some(i) = self.running.iter().position(Sequence::is_hidden) else { return Ok(vec![]) };
        let want = self.want(i, self.limits.rows, self.limits.selected);
        Ok(match self.give_pages(i, want, step)? {
            Some(rows) if rows > 0 => vec![Share { seq: i, rows }],
            _ => vec![],
        })
    }

    /// Rows that sequence `i` could use.
    fn want(&self, i: usize, rows: usize, selected: usize) -> usize {
        let s = &self.running[i];
        let limit = if matches!(s.purpose, Purpose::Pass(_)) { rows.min(selected) } else { rows };
        let n = s.pending().min(limit);
        if self.states.is_none() || !self.reuse {
            return n;
        }
        // Prompts of recurrent models stop at their last page boundary, so that a snapshot can be taken there.
        let boundary = (s.prompt_len - 1) / PAGE_LEN * PAGE_LEN;
        if s.computed < boundary { n.min(boundary - s.computed) } else { n }
    }

    fn selected_rows(&self, i: usize, rows: usize) -> usize {
        match self.running[i].purpose {
            Purpose::Pass(_) => rows,
            Purpose::Answer(_) => usize::from(rows == self.running[i].pending()),
        }
    }

    /// Moves the first waiting sequence to the running ones; false when there is none or no memory for it.
    fn admit(&mut self, step: &mut dyn Step) -> lamina_plan::backend::Result<bool> {
        let Some(s) = self.waiting.front() else { return Ok(false) };
        // A page of slack per running sequence keeps a newcomer from pushing the others out at once.
        let need = s.tokens.len().div_ceil(PAGE_LEN).min(self.limits.rows.div_ceil(PAGE_LEN)) + 1;
        if !self.running.is_empty() && self.pages.free() < need + self.running.len() {
            return Ok(false);
        }
        let state = match &mut self.states {
            Some(states) => match states.take() {
                Some(state) => Some(state),
                None => return Ok(false),
            },
            None => None,
        };
        let Some(mut s) = self.waiting.pop_front() else { return Ok(false) };
        s.state = state;
        s.start();
        self.reuse_prefix(&mut s, step)?;
        self.running.push(s);
        Ok(true)
    }

    /// Takes over the pages (and the state) that earlier sequences have computed for the same beginning.
    fn reuse_prefix(&mut self, s: &mut Sequence, step: &mut dyn Step) -> lamina_plan::backend::Result<()> {
        if self.reuse && matches!(s.purpose, Purpose::Answer(_)) {
            let salt = s.salt(step.plan());
            (s.pages, s.hashes) = self.pages.find(salt, &s.tokens, s.tokens.len() - 1);
        }
        let mut snapshot = None;
        if let Some(states) = &mut self.states {
            // Pages are of use only up to a boundary whose state is known.
            while let Some(&hash) = s.hashes.last() {
                snapshot = states.find(hash);
                if snapshot.is_some() {
                    break;
                }
                s.hashes.pop();
                s.pages.pop().into_iter().for_each(|p| self.pages.release(p));
            }
        }
        if let Some(state) = s.state {
            step.copy_state(snapshot, state)?;
        }
        s.computed = s.pages.len() * PAGE_LEN;
        s.cached = s.computed.min(s.prompt_len);
        Ok(())
    }

    /// Gives sequence `i` pages for up to `rows` more rows; returns the rows that fit.
    ///
    /// When there is none left, the last sequence is put back; none is returned when that was `i` itself.
    fn give_pages(
        &mut self,
        i: usize,
        rows: usize,
        step: &mut dyn Step,
    ) -> lamina_plan::backend::Result<Option<usize>> {
        let at = self.running[i].computed;
        if !at.is_multiple_of(PAGE_LEN) && !self.own_page(i, at / PAGE_LEN, step)? {
            return Ok(None);
        }
        loop {
            let s = &mut self.running[i];
            let end = (s.computed + rows).div_ceil(PAGE_LEN);
            while s.pages.len() < end {
                match self.pages.take() {
                    Some(page) => s.pages.push(page),
                    None => break,
                }
            }
            let fit = (s.pages.len() * PAGE_LEN).saturating_sub(s.computed).min(rows);
            if fit > 0 {
                return Ok(Some(fit));
            }
            let last = self.running.len() - 1;
            self.put_back(last);
            if last == i {
                return Ok(None);
            }
        }
    }

    /// Makes sure that page `page` of sequence `i` is written by nobody else; false when `i` had to be put back.
    fn own_page(&mut self, i: usize, page: usize, step: &mut dyn Step) -> lamina_plan::backend::Result<bool> {
        while self.pages.shared(self.running[i].pages[page]) {
            let old = self.running[i].pages[page];
            if let Some(new) = self.pages.take() {
                step.copy_page(0, old, new)?;
                self.pages.release(old);
                self.running[i].pages[page] = new;
                return Ok(true);
            }
            let last = self.running.len() - 1;
            self.put_back(last);
            if last == i {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes a running sequence's memory away; it waits to be computed again, before all others.
    fn put_back(&mut self, i: usize) {
        let mut s = self.running.remove(i);
        self.free(&mut s);
        self.waiting.push_front(s);
    }

    /// Gives the memory of a sequence back. Its full pages can still be found by their tokens.
    pub fn free(&mut self, s: &mut Sequence) {
        // The end of a sequence is the least likely to be wanted again: it is put aside first.
        s.pages.drain(..).rev().for_each(|p| self.pages.release(p));
        s.hashes.clear();
        s.computed = 0;
        if let (Some(states), Some(state)) = (&mut self.states, s.state.take()) {
            states.release(state);
        }
    }

    /// Notes that `rows` rows of sequence `i` were computed, and publishes the pages that became full.
    pub fn computed(
        &mut self,
        i: usize,
        rows: usize,
        step: &mut dyn Step,
    ) -> lamina_plan::backend::Result<()> {
        let s = &mut self.running[i];
        s.computed += rows;
        if !self.reuse || s.is_hidden() {
            return Ok(());
        }
        let salt = s.salt(step.plan());
        while (s.hashes.len() + 1) * PAGE_LEN <= s.computed {
            let n = s.hashes.len();
            let before = s.hashes.last().copied().unwrap_or(salt);
            let tokens = &s.tokens[n * PAGE_LEN..(n + 1) * PAGE_LEN];
            s.hashes.push(self.pages.publish(s.pages[n], before, tokens));
        }
        if let (Some(states), Some(state), Some(&hash)) = (&mut self.states, s.state, s.hashes.last())
            && s.computed == s.hashes.len() * PAGE_LEN
            && let Some(to) = states.snapshot(hash)
        {
            step.copy_state(Some(state), to)?;
        }
        Ok(())
    }

    /// Adds answers that share all pages of sequence `i`, each with a state of its own.
    ///
    /// Answers that get no state wait and are computed from their tokens.
    pub fn share(
        &mut self,
        i: usize,
        mut forks: Vec<Sequence>,
        step: &mut dyn Step,
    ) -> lamina_plan::backend::Result<()> {
        for mut fork in forks.drain(..) {
            let state = self.states.as_mut().map(States::take);
            if let Some(None) = state {
                fork.hashes.clear();
                fork.computed = 0;
                self.waiting.push_back(fork);
                continue;
            }
            fork.state = state.flatten();
            if let (Some(to), from) = (fork.state, self.running[i].state) {
                step.copy_state(from, to)?;
            }
            fork.pages = self.running[i].pages.clone();
            fork.pages.iter().for_each(|&p| self.pages.hold(p));
            self.running.push(fork);
        }
        Ok(())
    }
}
