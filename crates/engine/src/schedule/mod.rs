//! The next step as a value: who gets how many rows, in which memory, and what is copied first. Decided without a
//! machine.

use crate::{
    memory::{KeptDrafts, Memory},
    policy::{self, Policy, Room, cost::Cost, tenants::Tenants},
    sequence::{Sequence, purpose::Purpose},
    swap_price::SwapPrice,
};
use lamina_plan::{Limits, Plan, batch::Copy};
use std::{fmt, time::Instant};

/// Rows of one sequence in the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Index into the running sequences.
    pub seq: usize,
    /// Its number.
    pub id: u64,
    /// Tokens that were computed before.
    pub start: usize,
    /// Rows from there on.
    pub rows: usize,
    /// Tokens that remain after them.
    pub left: usize,
    /// Rows of drafts behind them, where none remain.
    pub drafts: usize,
    /// Rows of branches, each of which has those before its drafts too, and of all beams but one.
    pub branch_rows: usize,
    /// These are its first rows of all.
    pub begins: bool,
}

/// Plan of the next step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepPlan {
    /// Copies that come before the rows, in order.
    pub copies: Vec<Copy>,
    /// Rows of each sequence that has any.
    pub shares: Vec<Share>,
    /// Sequences that lost their memory for it.
    pub preempted: Vec<u64>,
}

impl StepPlan {
    /// Rows of answers that decode, and of prompts and passes.
    pub fn rows(&self) -> (usize, usize) {
        let decoding = self.shares.iter().filter(|s| s.decodes()).map(Share::all_rows).sum();
        (decoding, self.shares.iter().map(Share::all_rows).sum::<usize>() - decoding)
    }
}

impl Share {
    /// True for the one row of an answer that goes on, whatever drafts stand behind it.
    pub fn decodes(&self) -> bool {
        self.rows == 1 && self.left == 0
    }

    /// Rows of the step, with those of drafts.
    pub fn all_rows(&self) -> usize {
        self.rows + self.drafts + self.branch_rows
    }
}

impl fmt::Display for StepPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.preempted.iter().try_for_each(|id| writeln!(f, "preempt {id}"))?;
        self.copies.iter().try_for_each(|copy| match copy {
            Copy::Page { group, from, to } => writeln!(f, "copy page {from} to {to} of group {group}"),
            Copy::State { from: Some(from), to } => writeln!(f, "copy state {from} to {to}"),
            Copy::State { from: None, to } => writeln!(f, "clear state {to}"),
        })?;
        self.shares.iter().try_for_each(|s| {
            let end = s.start + s.rows;
            write!(f, "sequence {}: positions {}..{end}, {} left", s.id, s.start, s.left)?;
            if s.drafts > 0 {
                write!(f, ", {} drafts", s.drafts)?;
            }
            if s.branch_rows > 0 { writeln!(f, ", {} rows of branches", s.branch_rows) } else { writeln!(f) }
        })
    }
}

/// Sequences that lose their memory in a step, and what decides whether it is kept.
struct Preemption<'a> {
    now: Instant,
    cost: &'a Cost,
    preempted: Vec<u64>,
}

/// Waiting and running sequences and their memory.
pub(crate) struct Schedule {
    /// In no order.
    pub waiting: Vec<Sequence>,
    /// In the order of admission.
    pub running: Vec<Sequence>,
    /// Pages and states by sequence.
    pub memory: Memory,
    /// Machine time by tenant.
    pub tenants: Tenants,
    /// Rows of a step.
    room: Room,
    policy: Policy,
    /// What swapping costs; none where preempted sequences are computed again.
    pub swap: Option<SwapPrice>,
    /// Number of the next sequence.
    arrivals: u64,
    /// Sequence that decodes first where not all fit: decode rows rotate.
    first: u64,
}

impl Schedule {
    /// An empty schedule for a machine.
    pub fn new(plan: &Plan, limits: &Limits, reuse: bool, policy: Policy) -> Schedule {
        Schedule {
            waiting: vec![],
            running: vec![],
            memory: Memory::new(plan, limits, reuse),
            tenants: Tenants::default(),
            room: Room { rows: limits.rows, selected: limits.selected.min(limits.logits) },
            policy,
            swap: None,
            arrivals: 0,
            first: 0,
        }
    }

    /// Takes a sequence in.
    pub fn add(&mut self, mut s: Sequence) {
        self.enter(&mut s);
        self.waiting.push(s);
    }

    fn enter(&mut self, s: &mut Sequence) {
        s.id = self.arrivals;
        self.arrivals += 1;
        self.tenants.enter(&s.terms.tenant);
    }

    /// Takes the sequences out for which `what` is true, with no memory left to them.
    pub fn remove(&mut self, mut what: impl FnMut(&Sequence) -> bool) -> Vec<Sequence> {
        let waiting: Vec<_> = self.waiting.extract_if(.., |s| what(s)).collect();
        let mut out: Vec<_> = waiting.into_iter().chain(self.running.extract_if(.., |s| what(s))).collect();
        out.iter_mut().for_each(|s| self.memory.free(s));
        out.iter().for_each(|s| self.tenants.leave(&s.terms.tenant));
        out
    }

    /// Asks for rows of pictures that running sequences come to.
    pub fn ask_rows(&mut self) {
        self.running.iter_mut().for_each(Sequence::ask_rows);
    }

    /// The next step.
    pub fn next(&mut self, now: Instant, cost: &Cost) -> StepPlan {
        let mut preemption = Preemption { now, cost, preempted: vec![] };
        self.memory.copies.begin_plan();
        self.waiting.iter_mut().chain(&mut self.running).for_each(Sequence::ask_reader);
        self.admit(&mut preemption);
        let mut order = self.divide(now, cost);
        // Who goes first takes memory first, and only from those behind, which have none of this step's rows yet.
        order.sort_by_key(|&(rank, _)| rank);
        let given: Vec<_> = order
            .into_iter()
            .filter_map(|(rank, rows)| Some((rank.id, self.give_pages(rank.id, rows, &mut preemption)?)))
            .collect();
        let shares = given.into_iter().filter_map(|(id, rows)| self.share_of(id, rows)).collect();
        let mut plan = StepPlan { shares, copies: vec![], preempted: preemption.preempted };
        if !plan.shares.is_empty() {
            plan.copies = self.memory.copies.plan();
        }
        for share in &plan.shares {
            self.running[share.seq].start(now);
        }
        plan
    }

    fn share_of(&self, id: u64, rows: usize) -> Option<Share> {
        let seq = self.running.iter().position(|s| s.id == id)?;
        let s = &self.running[seq];
        let (all, rows) = (rows, rows / s.row_width());
        let (start, left) = (s.next_place(), s.pending() - rows);
        Some(Share { seq, id, start, rows, left, drafts: 0, branch_rows: all - rows, begins: s.begins() })
    }

    /// Rows of each running sequence that gets any. Those that begin take over what the cache has of them.
    fn divide(&mut self, now: Instant, cost: &Cost) -> Vec<(policy::Rank, usize)> {
        loop {
            let all: Vec<_> =
                self.running.iter().map(|s| s.candidate(self.memory.most_rows(s), now)).collect();
            let division = policy::divide(&all, self.room, self.first, cost, &self.policy);
            let mut begins = false;
            for (s, _) in self.running.iter_mut().zip(&division.rows).filter(|(s, r)| **r > 0 && !s.begun) {
                self.memory.begin(s);
                begins = true;
            }
            if !begins {
                self.first = division.next;
                let rows = all.iter().map(|c| c.rank).zip(division.rows);
                return rows.filter(|&(_, rows)| rows > 0).collect();
            }
        }
    }

    /// Moves waiting sequences to the running ones, first come first, while there is memory for them. Sequences whose
    /// readers are behind keep nobody out: they hold no place, and give back their memory where a newcomer needs it.
    fn admit(&mut self, preemption: &mut Preemption<'_>) {
        let now = preemption.now;
        let most = self.policy.max_running.min(self.room.selected).max(1);
        while self.running.iter().filter(|s| !s.paused).count() < most {
            let Some(i) = self.first_in_queue(now) else { return };
            let crowded = self.running.len() >= most.saturating_mul(2);
            if crowded || !self.fits(&self.waiting[i]) {
                if !self.preempt_last_of(|s| s.paused, preemption) {
                    return;
                }
                continue;
            }
            if !self.memory.admit(&mut self.waiting[i]) {
                return;
            }
            let mut s = self.waiting.swap_remove(i);
            s.admitted(now);
            self.running.push(s);
        }
    }

    /// Order of waiting: level, those that ran before, least served tenant, arrival.
    fn first_in_queue(&self, now: Instant) -> Option<usize> {
        let key = |s: &Sequence| {
            let service = self.tenants.service(&s.terms.tenant);
            (s.rank(now).level, !s.was_preempted(), service, s.id)
        };
        let able = self.waiting.iter().enumerate().filter(|(_, s)| !s.paused);
        able.min_by(|(_, a), (_, b)| key(a).partial_cmp(&key(b)).expect("service is a number"))
            .map(|(i, _)| i)
    }

    /// True when there are pages for the first rows of `s` beside those that the running ones take next, so that a
    /// newcomer does not push others out at once. One sequence alone always fits.
    fn fits(&self, s: &Sequence) -> bool {
        self.running.is_empty() || self.memory.fits(s, &self.running)
    }

    /// Gives a sequence pages for up to `rows` rows; returns how many fit.
    ///
    /// When there is no page, the last in rank is preempted; none is returned when that was the sequence itself.
    fn give_pages(&mut self, id: u64, rows: usize, preemption: &mut Preemption<'_>) -> Option<usize> {
        loop {
            let s = self.running.iter_mut().find(|s| s.id == id)?;
            let rows = s.uncut(rows);
            if rows == 0 {
                return None;
            }
            let fit = match s.row_width() {
                1 if s.beams().is_none() => self.memory.grow(s, rows),
                width if self.memory.grow_beams(s, rows / width) => rows,
                _ => 0,
            };
            let fit = if fit < rows { s.uncut(fit) } else { fit };
            if fit > 0 && (fit == rows || !s.comes_whole()) {
                return Some(fit);
            }
            self.preempt_last(preemption);
        }
    }

    /// Preempts the last in rank; false when nothing runs.
    fn preempt_last(&mut self, preemption: &mut Preemption<'_>) -> bool {
        self.preempt_last_of(|_| true, preemption)
    }

    /// Preempts the last in rank of those for which `what` is true; false when there is none.
    fn preempt_last_of(&mut self, what: impl Fn(&Sequence) -> bool, preemption: &mut Preemption<'_>) -> bool {
        let ranks = self
            .running
            .iter()
            .enumerate()
            .filter(|(_, s)| what(s))
            .map(|(i, s)| (s.rank(preemption.now), i));
        let Some((rank, i)) = ranks.max() else { return false };
        preemption.preempted.push(rank.id);
        let mut s = self.running.remove(i);
        match self.swaps(&s, preemption.cost) {
            true => self.memory.swap_out(&mut s),
            false => self.memory.free(&mut s),
        }
        s.preempted(preemption.now);
        self.waiting.push(s);
        true
    }

    /// True where a sequence that is preempted had better be swapped than computed again.
    fn swaps(&self, s: &Sequence, cost: &Cost) -> bool {
        let pays =
            |price: &SwapPrice| price.pays(&self.memory.swap_pages(s), s.computed, self.room.rows, cost);
        // What a search has is many beams' and not one text's.
        let searches = matches!(s.purpose, Purpose::Beams(_));
        s.held.returns() || (!searches && self.swap.as_ref().is_some_and(pays))
    }

    /// Drops the older half of the tokens of running sequences that have reached the end of the context; they wait to be
    /// computed again. `before` hears of each.
    pub fn shift_full(&mut self, context: usize, now: Instant, mut before: impl FnMut(&Sequence)) {
        for mut s in self.running.extract_if(.., |s| s.overflows(context)) {
            before(&s);
            self.memory.free(&mut s);
            s.shift(context);
            s.waits(now);
            self.waiting.push(s);
        }
    }

    /// Counts machine time for the tenant of running sequence `i`.
    pub fn charge(&mut self, i: usize, seconds: f64) {
        let s = &mut self.running[i];
        s.machine_seconds += seconds;
        self.tenants.charge(&s.terms.tenant, seconds, s.terms.share);
    }

    /// Rows that a plan leaves to drafts.
    pub fn left(&self, plan: &StepPlan) -> usize {
        let rows = plan.shares.iter().map(Share::all_rows).sum();
        let selected = |share: &Share| {
            let s = &self.running[share.seq];
            let of_branches: usize = s.held.branches.iter().map(|b| b.drafts).sum();
            let wanted = s.wanted(share.rows, share.left) * s.row_width();
            if s.is_free() { 0 } else { wanted + share.drafts + of_branches }
        };
        let selected = plan.shares.iter().map(selected).sum();
        self.room.rows.saturating_sub(rows).min(self.room.selected.saturating_sub(selected))
    }

    /// Gives share `i` of a plan up to `drafts` rows of drafts, in memory that nobody holds; returns how many it got.
    pub fn extend(&mut self, plan: &mut StepPlan, i: usize, drafts: usize) -> usize {
        let share = &mut plan.shares[i];
        let s = &mut self.running[share.seq];
        let fit = self.memory.grow(s, share.rows + drafts).saturating_sub(share.rows);
        share.drafts = if fit > 0 && self.memory.take_next_state(s) { fit } else { 0 };
        plan.copies.extend(self.memory.copies.plan());
        share.drafts
    }

    /// Gives share `i` of a plan a branch of `drafts` drafts, where rows and memory are left; false where they are not.
    pub fn branch(&mut self, plan: &mut StepPlan, i: usize, drafts: usize) -> bool {
        let (left, share) = (self.left(plan), &mut plan.shares[i]);
        let rows = share.rows + drafts;
        let has = rows <= left && self.memory.branch(&mut self.running[share.seq], share.rows, drafts);
        share.branch_rows += if has { rows } else { 0 };
        plan.copies.extend(self.memory.copies.plan());
        has
    }

    /// Notes that the rows of a share were computed, with those of its drafts, of which some may be tokens now. Pages that
    /// became full are published.
    pub fn computed(&mut self, share: &Share, kept: KeptDrafts) {
        let s = &mut self.running[share.seq];
        if self.memory.keep_drafts(s, share.drafts, kept) {
            s.advance(share.start, share.rows + kept.accepted);
        }
        self.memory.computed(s);
    }

    /// Adds answers that share all pages of running sequence `i`, each with a state of its own.
    ///
    /// Answers that get no state wait and are computed from their tokens. Returns their numbers.
    pub fn share(&mut self, i: usize, forks: Vec<Sequence>, now: Instant) -> Vec<u64> {
        let mut numbers = vec![];
        for mut fork in forks {
            self.enter(&mut fork);
            numbers.push(fork.id);
            fork.computed = self.running[i].computed;
            if self.memory.share(&self.running[i].held, &mut fork) {
                self.running.push(fork);
            } else {
                fork.computed = 0;
                fork.waits(now);
                self.waiting.push(fork);
            }
        }
        numbers
    }
}

#[cfg(test)]
mod tests;
