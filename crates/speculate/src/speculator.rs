//! The drafters of an engine: who is asked for whom, who gets how many rows of a step, and what is learned of it.
//!
//! Drafts take rows and memory that are left when everybody has theirs, and give back what they do not keep.

use crate::{
    budget::{DraftBudget, Portion},
    draft::{Drafts, Guesses, Proposal, Verification},
    drafter::{DraftAsk, Drafter},
    hidden_rows::KEPT,
    slot::{DraftSlot, DraftedStep, Offer, OfferedChain, divide},
    taps::{TappedRows, WantedTaps, WatchedMarks},
    tuner::{PassedGuess, Tuner, Tuning},
};
use lamina_plan::{Rows, Step};
use std::{collections::HashMap, ops::Range, time::Instant};

/// How often guesses of a drafter that takes machine time are right, before any was tried.
const UNTRIED: f32 = 0.5;
/// Weight of a new time in the mean time of a drafter.
const WEIGHT: f64 = 1.0 / 8.0;

/// Drafters, and what is known of their guesses.
pub struct Speculator {
    drafters: Vec<LoadedDrafter>,
    tuner: Tuner,
    /// By sequence.
    tunings: HashMap<u64, Tuning>,
    /// Tokens that have both an embedding and a logit.
    vocab: u32,
    /// Hidden rows that drafters read.
    watched: WatchedMarks,
}

/// A slot, and what a drafter is asked for it.
struct AbleSlot<'a, 's> {
    ask: DraftAsk<'a>,
    slot: &'s mut DraftSlot,
}

struct LoadedDrafter {
    drafter: Box<dyn Drafter>,
    /// It failed: it is asked no more.
    failed: bool,
    /// Seconds of a guess, in the mean.
    seconds: f64,
}

impl Speculator {
    /// With drafters for a machine.
    pub fn new(drafters: Vec<Box<dyn Drafter>>, step: &dyn Step) -> Speculator {
        let plan = step.plan();
        let marks = drafters.iter().flat_map(|d| d.taps().iter().copied()).collect();
        let loaded = |drafter| LoadedDrafter { drafter, failed: false, seconds: 0.0 };
        Speculator {
            tuner: Tuner::new(drafters.len()),
            drafters: drafters.into_iter().map(loaded).collect(),
            tunings: HashMap::new(),
            vocab: plan.tokens.min(plan.vocab) as u32,
            watched: WatchedMarks::new(marks, plan, step.limits()),
        }
    }

    /// Names of the drafters.
    pub fn methods(&self) -> Vec<&'static str> {
        self.drafters.iter().map(|d| d.drafter.name()).collect()
    }

    /// True where a drafter is left to ask.
    pub fn guesses(&self) -> bool {
        self.drafters.iter().any(|d| !d.failed)
    }

    /// Adds drafts to the sequences of a step that may get any, within its budget.
    pub fn guess(&mut self, mut slots: Vec<DraftSlot>, step: &mut dyn DraftedStep, budget: &DraftBudget<'_>) {
        for by in self.order() {
            self.ask(by, &mut slots, step, budget);
        }
        let mut portions = divide(&slots, budget);
        // What is legal is asked for where rows are to be given out alone: a grammar takes its time.
        let some = slots.iter_mut().zip(&portions).filter(|(_, portion)| portion.width > 0);
        if some.fold(false, |cut, (slot, _)| self.cut(slot, step) | cut) {
            portions = divide(&slots, budget);
        }
        for (slot, portion) in slots.into_iter().zip(portions) {
            self.put(slot, portion, step);
        }
    }

    /// Those that only look up come first: they cost nothing, and where they promise much no other is asked.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.drafters.len()).filter(|&i| !self.drafters[i].failed).collect();
        order.sort_by_key(|&i| self.drafters[i].drafter.computes());
        order
    }

    /// Asks drafter `by` for the sequences that may use it, and keeps what promises more than they have.
    fn ask(&mut self, by: usize, slots: &mut [DraftSlot], step: &dyn DraftedStep, budget: &DraftBudget<'_>) {
        let name = self.drafters[by].drafter.name();
        let mut able: Vec<_> = slots
            .iter_mut()
            .filter(|s| s.speculate.method.as_ref().is_none_or(|m| **m == *name))
            .map(|slot| AbleSlot { ask: DraftAsk { most: slot.most, ..step.ask(slot.share) }, slot })
            .collect();
        if self.drafters[by].drafter.computes() {
            self.limit(by, &mut able, budget);
        }
        if able.is_empty() {
            return;
        }
        let branches = |slot: &DraftSlot| slot.speculate.most_chains();
        let asks: Vec<_> =
            able.iter().map(|able| DraftAsk { branches: branches(able.slot), ..able.ask }).collect();
        let begin = Instant::now();
        let Ok(proposals) = self.drafters[by].drafter.propose(&asks) else {
            self.drafters[by].failed = true;
            return;
        };
        // Rounds without a guess computed prompts.
        let depth = proposals.iter().flatten().map(|c| c.tokens.len()).max().unwrap_or(0);
        let mean = &mut self.drafters[by].seconds;
        if depth > 0 {
            let seconds = begin.elapsed().as_secs_f64() / depth as f64;
            *mean = if *mean == 0.0 { seconds } else { *mean + (seconds - *mean) * WEIGHT };
        }
        for (AbleSlot { ask, slot }, mut proposal) in able.into_iter().zip(proposals) {
            proposal.truncate(slot.speculate.most_chains());
            proposal.iter_mut().for_each(|chain| chain.truncate(ask.most));
            let offer = self.offer(by, ask.id, proposal);
            if offer.brings() > slot.offer.as_ref().map_or(0.0, Offer::brings) {
                slot.offer = Some(offer);
            }
        }
    }

    /// Leaves those for whom a drafter that takes machine time pays, each with as many guesses as do.
    fn limit(&mut self, by: usize, able: &mut Vec<AbleSlot<'_, '_>>, budget: &DraftBudget<'_>) {
        let seconds = self.drafters[by].seconds;
        let (tuner, tunings, drafters) = (&self.tuner, &mut self.tunings, self.drafters.len());
        let mut paying = vec![];
        able.retain_mut(|AbleSlot { ask, slot }| {
            let tuning = tunings.entry(ask.id).or_insert_with(|| Tuning::new(drafters));
            if let Some(width) = slot.speculate.width {
                ask.most = width.min(ask.most);
                return true;
            }
            let chance = tuner.overall(tuning, by, UNTRIED);
            let depth = budget.depth(1, chance, seconds);
            let has = slot.offer.as_ref().map_or(0.0, Offer::brings);
            let brings: f32 = (1..=depth).map(|k| chance.powi(k as i32)).sum();
            match (depth, tuning.is_due(by) && tuner.is_due(by)) {
                (1.., _) if brings > has => paying.push(chance),
                (0, true) => ask.most = 1,
                _ => return false,
            }
            true
        });
        if !paying.is_empty() {
            let chance = paying.iter().sum::<f32>() / paying.len() as f32;
            let depth = budget.depth(paying.len(), chance, seconds);
            able.retain_mut(|AbleSlot { ask, slot }| {
                if slot.speculate.width.is_none() {
                    let due = tuner.is_due(by) && tunings.get(&ask.id).is_some_and(|t| t.is_due(by));
                    ask.most = depth.max(usize::from(due)).min(ask.most);
                }
                ask.most > 0
            });
        }
    }

    fn offer(&mut self, by: usize, id: u64, proposal: Proposal) -> Offer {
        let drafters = self.drafters.len();
        let tuning = self.tunings.entry(id).or_insert_with(|| Tuning::new(drafters));
        let drafter = &self.drafters[by].drafter;
        let chances = |guesses: &Guesses| self.tuner.chances(tuning, by, guesses, |sign| drafter.prior(sign));
        let offered = |guesses| OfferedChain { chances: chances(&guesses), guesses };
        let due = drafter.computes() && tuning.is_due(by) && self.tuner.is_due(by);
        Offer { by, chains: proposal.into_iter().map(offered).collect(), due }
    }

    /// Cuts an offer at the first token that cannot be the answer's next one, or that ends it. True when that changed it.
    fn cut(&self, slot: &mut DraftSlot, step: &mut dyn DraftedStep) -> bool {
        let Some(offer) = &mut slot.offer else { return false };
        let share = slot.share;
        offer.cut(|tokens| {
            let known = tokens.iter().take_while(|t| **t < self.vocab).count();
            step.legal(share, &tokens[..known])
        })
    }

    /// Gives a sequence its drafts, as many as there is memory for.
    fn put(&mut self, slot: DraftSlot, portion: Portion, step: &mut dyn DraftedStep) {
        let Some(offer) = slot.offer else { return };
        if portion.width == 0 {
            return self.pass(&offer, &step.ask(slot.share));
        }
        let width = step.extend(slot.share, portion.width);
        let mut chains = offer.chains.into_iter().map(|chain| chain.guesses);
        let Some(mut first) = chains.next().filter(|_| width > 0) else { return };
        first.truncate(width);
        let mut drafts = Drafts { by: offer.by, chains: vec![] };
        drafts.push(first);
        let others: Vec<_> = chains.collect();
        for (k, len) in portion.branches {
            let mut branch = others[k].clone();
            branch.truncate(len);
            if step.branch(slot.share, branch.tokens.len()) {
                drafts.push(branch);
            }
        }
        step.put(slot.share, drafts, self.drafters[offer.by].drafter.name());
    }

    /// Keeps the first guess of an offer that got no row, to see whether it was right.
    fn pass(&mut self, offer: &Offer, ask: &DraftAsk<'_>) {
        let Some(first) = offer.chains.first().map(|chain| &chain.guesses) else { return };
        let (Some(&token), Some(&sign)) = (first.tokens.first(), first.signs.first()) else { return };
        if let Some(tuning) = self.tunings.get_mut(&ask.id) {
            tuning.pass(PassedGuess { by: offer.by, at: ask.tokens.len(), token, sign });
        }
    }

    /// Learns what came of a sequence's drafts in a step; `said` has the likeliest token of the rows of its first chain,
    /// where drafters listen. `ask` has its tokens by now. The result is how many guesses there were.
    pub fn learn(
        &mut self,
        ask: &DraftAsk<'_>,
        drafts: &Drafts,
        verified: &Verification,
        said: &[u32],
    ) -> usize {
        let drafters = self.drafters.len();
        if drafters == 0 {
            return 0;
        }
        let tuning = self.tunings.entry(ask.id).or_insert_with(|| Tuning::new(drafters));
        self.tuner.rested(tuning, 1 + verified.accepted());
        self.tuner.note_passed(tuning, ask.tokens);
        let Some(first) = verified.seen.first() else { return 0 };
        self.tuner.note(tuning, drafts.by, &drafts.chains, &verified.seen);
        for d in self.drafters.iter_mut().filter(|d| d.drafter.listens() && !said.is_empty()) {
            d.drafter.said(ask, drafts.tokens(0), said, first.accepted);
        }
        drafts.count()
    }

    /// What drafters want of the rows of a sequence that may be drafted: of its `tokens` tokens, those of places `computed`
    /// are computed, with drafts behind them.
    pub fn wanted(&self, tokens: usize, computed: Range<usize>) -> WantedTaps<'_> {
        let heard = self.drafters.iter().any(|d| d.drafter.listens());
        let first = computed.start.max(tokens.saturating_sub(KEPT));
        let rows = computed.end.saturating_sub(first);
        if self.watched.marks.is_empty() || rows == 0 {
            return WantedTaps { heard, ..WantedTaps::default() };
        }
        WantedTaps { marks: &self.watched.marks, rows, selected: self.watched.selected, heard }
    }

    /// Hands hidden rows of a sequence's step to the drafters, as far as their tokens are kept.
    pub fn observe(&mut self, rows: &dyn Rows, id: u64, tapped: TappedRows) {
        if tapped.kept == 0 {
            return;
        }
        for d in self.drafters.iter_mut().filter(|d| !d.failed && !d.drafter.taps().is_empty()) {
            let of_mark = |mark: &usize| {
                let at = self.watched.marks.iter().position(|m| m == mark);
                let numbers = rows.tap(tapped.first + at.unwrap_or(0));
                &numbers[..numbers.len() / tapped.count * tapped.kept]
            };
            let pieces: Vec<_> = d.drafter.taps().iter().map(of_mark).collect();
            d.drafter.observe(id, tapped.start, &pieces, tapped.kept);
        }
    }

    /// Sequence `to` goes on from where sequence `from` is.
    pub fn fork(&mut self, from: u64, to: &[u64]) {
        for d in &mut self.drafters {
            to.iter().for_each(|&to| d.drafter.fork(from, to));
        }
    }

    /// A sequence has ended.
    pub fn forget(&mut self, ask: &DraftAsk<'_>) {
        self.tunings.remove(&ask.id);
        self.drafters.iter_mut().for_each(|d| d.drafter.forget(ask));
    }
}
