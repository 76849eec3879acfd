//! What a draft model has computed of each sequence: its own pages and states, and how they follow the kept tokens.

use crate::{drafter::DraftAsk, hidden_rows::KEPT};
use lamina_plan::{GroupSpec, Limits, NO_PAGE, PAGE_LEN, Plan, Reach, SeqPlace};
use std::collections::HashMap;

/// A sequence that was not asked for during so many tokens of its answer is taken up again: guesses were of no use
/// meanwhile.
const LATE: usize = 32;

/// Sequences that a draft model follows, and its memory.
pub(crate) struct Followers {
    /// Pages that are free, of each layer group.
    groups: Vec<(Reach, Vec<u32>)>,
    /// States that are free; none for models without.
    states: Option<Vec<u32>>,
    followed: HashMap<u64, Followed>,
    clock: u64,
}

/// One sequence, as far as the draft model has computed it.
#[derive(Default)]
pub(crate) struct Followed {
    /// Tokens whose rows are in its cache, guesses among them.
    pub tokens: Vec<u32>,
    /// Place of the first of them in the sequence.
    pub from: usize,
    /// Tokens of the sequence when it was asked for last.
    asked: usize,
    tables: Vec<Vec<u32>>,
    /// State behind the kept tokens, and one that goes on with guesses.
    states: Option<[u32; 2]>,
    prompt_len: usize,
    used: u64,
}

impl Followers {
    pub fn new(plan: &Plan, limits: &Limits) -> Followers {
        let group = |(g, &n): (&GroupSpec, &usize)| (g.reach, (0..n as u32).rev().collect());
        Followers {
            groups: plan.kv.groups.iter().zip(&limits.pages).map(group).collect(),
            states: (plan.kv.state_len() > 0).then(|| (0..limits.states as u32).collect()),
            followed: HashMap::new(),
            clock: 0,
        }
    }

    /// Begins a round: what is used in it gives its memory to nobody.
    pub fn begin(&mut self) {
        self.clock += 1;
    }

    /// The sequence of `ask`, cut back to what its tokens and the computed ones have in common; its last token is never
    /// among them, since its row is wanted. None where there is no state for it.
    ///
    /// One that is taken up again begins anew with its last tokens: to compute all that came meanwhile, for a guess that
    /// may be of no use either, would cost more than the guesses bring.
    pub fn follow(&mut self, ask: &DraftAsk<'_>) -> Option<&mut Followed> {
        self.enter(ask.id, ask.prompt_len)?;
        let followed = self.followed.get_mut(&ask.id)?;
        let all = ask.tokens.len();
        let known = ask.tokens[followed.from.min(all)..].iter();
        let same = followed.tokens.iter().zip(known).take_while(|(a, b)| a == b).count();
        let mut same = same.min(all.saturating_sub(1 + followed.from));
        let late = all.saturating_sub(followed.asked.max(ask.prompt_len)) > LATE;
        if late && all.saturating_sub(followed.from + same) > KEPT {
            (followed.from, same) = (all - KEPT, 0);
        }
        followed.asked = all;
        // A state cannot be cut back: it begins anew.
        followed.tokens.truncate(if followed.states.is_some() && same < followed.tokens.len() {
            0
        } else {
            same
        });
        self.trim(ask.id);
        self.followed.get_mut(&ask.id)
    }

    /// The sequence `id`, with what was computed of it so far. None where there is no state for it.
    pub fn enter(&mut self, id: u64, prompt_len: usize) -> Option<&Followed> {
        if !self.followed.contains_key(&id) {
            let states = match self.take_states() {
                Err(()) => return None,
                Ok(states) => states,
            };
            let tables = vec![vec![]; self.groups.len()];
            self.followed.insert(id, Followed { tables, states, prompt_len, ..Followed::default() });
        }
        let followed = self.followed.get_mut(&id)?;
        followed.used = self.clock;
        Some(followed)
    }

    /// Gives back pages that no later row sees; all of them where the sequence begins anew.
    pub fn trim(&mut self, id: u64) {
        let Some(followed) = self.followed.get_mut(&id) else { return };
        let done = followed.tokens.len();
        for ((reach, pages), table) in self.groups.iter_mut().zip(&mut followed.tables) {
            let first = (reach.first(done) / PAGE_LEN).min(table.len());
            let gone = table[..first].iter_mut().filter(|p| **p != NO_PAGE);
            pages.extend(gone.map(|p| std::mem::replace(p, NO_PAGE)));
            // What a window gave back and is wanted again after a cut has to be computed again.
            if table[first..].contains(&NO_PAGE) {
                followed.tokens.clear();
            }
        }
        if followed.tokens.is_empty() {
            self.reset(id);
        }
    }

    /// Gives the pages of a sequence back, which begins anew.
    fn reset(&mut self, id: u64) {
        let Some(followed) = self.followed.get_mut(&id) else { return };
        for ((_, pages), table) in self.groups.iter_mut().zip(&mut followed.tables) {
            pages.extend(table.drain(..).filter(|&p| p != NO_PAGE));
        }
    }

    fn take_states(&mut self) -> Result<Option<[u32; 2]>, ()> {
        let Some(free) = &mut self.states else { return Ok(None) };
        if free.len() < 2 && !self.evict() {
            return Err(());
        }
        let free = self.states.as_mut().ok_or(())?;
        Ok(Some([free.pop().ok_or(())?, free.pop().ok_or(())?]))
    }

    /// Makes room for the first `end` cells of a sequence; false when there is none.
    pub fn grow(&mut self, id: u64, end: usize) -> bool {
        for group in 0..self.groups.len() {
            while self.followed[&id].tables[group].len() * PAGE_LEN < end {
                let Some(page) = self.groups[group].1.pop() else {
                    if self.evict() {
                        continue;
                    }
                    return false;
                };
                self.followed.entry(id).and_modify(|f| f.tables[group].push(page));
            }
        }
        true
    }

    /// Forgets the sequence that was asked for least lately, but none of this round.
    fn evict(&mut self) -> bool {
        let old = self.followed.iter().filter(|(_, f)| f.used < self.clock);
        let Some(id) = old.min_by_key(|(_, f)| f.used).map(|(&id, _)| id) else { return false };
        self.forget(id);
        true
    }

    /// Takes the memory of a sequence back.
    pub fn forget(&mut self, id: u64) {
        self.reset(id);
        let states = self.followed.remove(&id).and_then(|f| f.states);
        self.states.iter_mut().for_each(|free| free.extend(states.into_iter().flatten()));
    }

    /// Block tables of a sequence, with its working state or the one behind kept tokens.
    pub fn place(&self, id: u64, working: bool) -> SeqPlace {
        let f = &self.followed[&id];
        let state = f.states.map_or(0, |s| s[usize::from(working)]);
        let (pages, prompt_len) = (f.tables.clone(), f.prompt_len as u32);
        SeqPlace { pages, state, prompt_len, ..SeqPlace::default() }
    }

    /// Place of the first token of a sequence that it follows.
    pub fn begin_of(&self, id: u64) -> usize {
        self.followed[&id].from
    }

    /// Both states of a sequence.
    pub fn states(&self, id: u64) -> Option<[u32; 2]> {
        self.followed[&id].states
    }

    /// Takes computed tokens in.
    pub fn computed(&mut self, id: u64, tokens: &[u32]) {
        self.followed.entry(id).and_modify(|f| f.tokens.extend_from_slice(tokens));
    }
}
