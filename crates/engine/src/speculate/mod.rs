//! Speculative decoding: tokens are guessed, verified in the sequence's next step, and kept where the model itself would
//! have chosen them. So an answer is the same with and without; only its speed differs.
//!
//! A drafter guesses ([`Drafter`], one file each), the tuner decides how many guesses get rows of a step, `verify` finds
//! those that are right. Drafts take rows and pages that are left when everybody has theirs, and give back what they do
//! not keep.

mod bridge;
mod drafter;
mod follow;
mod head;
mod hidden;
mod index;
mod known;
mod lookahead;
mod market;
mod medusa;
mod model;
mod ngram;
mod round;
mod seat;
mod suffix;
mod tuner;
mod watch;

pub use bridge::BridgedModel;
pub use drafter::{DraftAsk, Drafter};
pub use head::{HeadDrafter, LoadedHead};
pub use known::{KnownAnswers, KnownTexts, Rightness};
pub use lookahead::Lookahead;
pub use medusa::Medusa;
pub use model::DraftModel;
pub use ngram::Ngram;
pub use suffix::Suffix;

use crate::{
    cost::{Cost, Size},
    drafting::{Drafts, Guesses, Proposal, Verification},
    purpose::Purpose,
    schedule::{Schedule, StepPlan},
    sequence::Sequence,
};
use drafter::DraftEdits;
use lamina_plan::Step;
use market::{Market, Portion, Rejected};
use seat::{DraftSeat, Offer, OfferedChain, SeatRoom, divide, seats};
use std::{collections::HashMap, time::Instant};
use tuner::{PassedGuess, Tuner, Tuning};
use watch::WatchedMarks;

/// How often guesses of a drafter that takes machine time are right, before any was tried.
const UNTRIED: f32 = 0.5;
/// Weight of a new time in the mean time of a drafter.
const WEIGHT: f64 = 1.0 / 8.0;

/// Drafters, and what is known of their guesses.
pub(crate) struct Speculator {
    drafters: Vec<LoadedDrafter>,
    tuner: Tuner,
    /// By sequence.
    tunings: HashMap<u64, Tuning>,
    /// What wrong guesses cost.
    rejected: Rejected,
    /// Tokens that have both an embedding and a logit.
    vocab: u32,
    /// Of requests that do not say.
    width: Option<usize>,
    /// Hidden rows that drafters read.
    watched: WatchedMarks,
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
        let recurrent = plan.kv.state_len() > 0;
        let loaded = |drafter| LoadedDrafter { drafter, failed: false, seconds: 0.0 };
        Speculator {
            tuner: Tuner::new(drafters.len()),
            drafters: drafters.into_iter().map(loaded).collect(),
            tunings: HashMap::new(),
            rejected: if recurrent { Rejected::Recomputed } else { Rejected::Overwritten },
            vocab: plan.tokens.min(plan.vocab) as u32,
            width: None,
            watched: WatchedMarks::new(marks, plan, step.limits()),
        }
    }

    /// With a width for requests that do not say.
    pub fn with_width(self, width: Option<usize>) -> Speculator {
        Speculator { width, ..self }
    }

    /// Names of the drafters.
    pub fn methods(&self) -> Vec<&'static str> {
        self.drafters.iter().map(|d| d.drafter.name()).collect()
    }

    /// Adds drafts to the sequences of a plan, in rows and pages that are left; no sequence grows beyond `context`.
    pub fn guess(&mut self, plan: &mut StepPlan, schedule: &mut Schedule, cost: &Cost, context: usize) {
        if self.drafters.iter().all(|d| d.failed) {
            return;
        }
        let room = schedule.left(plan);
        let mut seats = seats(plan, schedule, context, SeatRoom { rows: room, width: self.width });
        if seats.is_empty() {
            return;
        }
        let rows = plan.shares.iter().map(|s| s.rows).sum();
        let depth = plan.shares.iter().map(|s| s.start + s.rows).sum::<usize>() / plan.shares.len();
        let answers = plan.shares.iter().filter(|s| s.left == 0).count();
        let size = Size { rows, depth };
        let market = Market { cost, size, answers, room, rejected: self.rejected };
        for by in self.order() {
            self.ask(by, &mut seats, schedule, &market);
        }
        let mut portions = divide(&seats, &market);
        // What is legal is asked for where rows are to be given out alone: a grammar takes its time.
        let some = seats.iter_mut().zip(&portions).filter(|(_, portion)| portion.width > 0);
        if some.fold(false, |cut, (seat, _)| self.cut(seat, &mut schedule.running[seat.seq]) | cut) {
            portions = divide(&seats, &market);
        }
        for (seat, portion) in seats.into_iter().zip(portions) {
            self.put(seat, portion, plan, schedule);
        }
    }

    /// Those that only look up come first: they cost nothing, and where they promise much no other is asked.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.drafters.len()).filter(|&i| !self.drafters[i].failed).collect();
        order.sort_by_key(|&i| self.drafters[i].drafter.computes());
        order
    }

    /// Asks drafter `by` for the sequences that may use it, and keeps what promises more than they have.
    fn ask(&mut self, by: usize, seats: &mut [DraftSeat], schedule: &Schedule, market: &Market<'_>) {
        let name = self.drafters[by].drafter.name();
        let mut able: Vec<_> = seats
            .iter_mut()
            .filter(|s| s.speculate.method.as_ref().is_none_or(|m| **m == *name))
            .map(|seat| (seat.most, seat))
            .collect();
        if self.drafters[by].drafter.computes() {
            self.limit(by, &mut able, market);
        }
        if able.is_empty() {
            return;
        }
        let ask = |most, seq: usize, branches| DraftAsk { branches, ..asked(&schedule.running[seq], most) };
        let asks: Vec<_> =
            able.iter().map(|(most, s)| ask(*most, s.seq, s.speculate.most_chains())).collect();
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
        for ((most, seat), mut proposal) in able.into_iter().zip(proposals) {
            proposal.truncate(seat.speculate.most_chains());
            proposal.iter_mut().for_each(|chain| chain.truncate(most));
            let offer = self.offer(by, seat.id, proposal);
            if offer.brings() > seat.offer.as_ref().map_or(0.0, Offer::brings) {
                seat.offer = Some(offer);
            }
        }
    }

    /// Leaves those for whom a drafter that takes machine time pays, each with as many guesses as do.
    fn limit(&mut self, by: usize, able: &mut Vec<(usize, &mut DraftSeat)>, market: &Market<'_>) {
        let seconds = self.drafters[by].seconds;
        let (tuner, tunings, drafters) = (&self.tuner, &mut self.tunings, self.drafters.len());
        let mut paying = vec![];
        able.retain_mut(|(most, seat)| {
            let tuning = tunings.entry(seat.id).or_insert_with(|| Tuning::new(drafters));
            if let Some(width) = seat.speculate.width {
                *most = width.min(*most);
                return true;
            }
            let chance = tuner.overall(tuning, by, UNTRIED);
            let depth = market.depth(1, chance, seconds);
            let has = seat.offer.as_ref().map_or(0.0, Offer::brings);
            let brings: f32 = (1..=depth).map(|k| chance.powi(k as i32)).sum();
            match (depth, tuning.is_due(by) && tuner.is_due(by)) {
                (1.., _) if brings > has => paying.push(chance),
                (0, true) => *most = 1,
                _ => return false,
            }
            true
        });
        if !paying.is_empty() {
            let chance = paying.iter().sum::<f32>() / paying.len() as f32;
            let depth = market.depth(paying.len(), chance, seconds);
            able.retain_mut(|(most, seat)| {
                if seat.speculate.width.is_none() {
                    let due = tuner.is_due(by) && tunings.get(&seat.id).is_some_and(|t| t.is_due(by));
                    *most = depth.max(usize::from(due)).min(*most);
                }
                *most > 0
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
    fn cut(&self, seat: &mut DraftSeat, s: &mut Sequence) -> bool {
        let (Some(offer), Purpose::Answer(answer)) = (&mut seat.offer, &mut s.purpose) else { return false };
        let ends = answer.generation.end_tokens.clone();
        let known = |t: &&u32| **t < self.vocab && !ends.contains(t);
        offer.cut(|tokens| {
            let len = tokens.iter().take_while(known).count();
            len.min(answer.legal(&tokens[..len]))
        })
    }

    /// Gives a sequence its drafts, as many as there are pages for.
    fn put(&mut self, seat: DraftSeat, portion: Portion, plan: &mut StepPlan, schedule: &mut Schedule) {
        let Some(offer) = seat.offer else { return };
        if portion.width == 0 {
            return self.pass(&offer, &schedule.running[seat.seq]);
        }
        let width = schedule.extend(plan, seat.share, portion.width);
        let mut chains = offer.chains.into_iter().map(|chain| chain.guesses);
        let Some(mut first) = chains.next().filter(|_| width > 0) else { return };
        first.truncate(width);
        let mut drafts = Drafts { by: offer.by, chains: vec![] };
        drafts.push(first);
        let others: Vec<_> = chains.collect();
        for (k, len) in portion.branches {
            let mut branch = others[k].clone();
            branch.truncate(len);
            if schedule.branch(plan, seat.share, branch.tokens.len()) {
                drafts.push(branch);
            }
        }
        if let Purpose::Answer(answer) = &mut schedule.running[seat.seq].purpose {
            answer.speculation.method = self.drafters[offer.by].drafter.name();
            answer.drafts = drafts;
        }
    }

    /// Keeps the first guess of an offer that got no row, to see whether it was right.
    fn pass(&mut self, offer: &Offer, s: &Sequence) {
        let Some(first) = offer.chains.first().map(|chain| &chain.guesses) else { return };
        let (Some(&token), Some(&sign)) = (first.tokens.first(), first.signs.first()) else { return };
        if let Some(tuning) = self.tunings.get_mut(&s.id) {
            tuning.pass(PassedGuess { by: offer.by, at: s.tokens.len(), token, sign });
        }
    }

    /// Learns what came of a sequence's step; `said` has the likeliest token of the rows of its first chain, where drafters
    /// listen. The result is how many guesses there were.
    pub fn learn(&mut self, s: &mut Sequence, verified: &Verification, said: &[u32]) -> usize {
        let Purpose::Answer(answer) = &mut s.purpose else { return 0 };
        let drafters = self.drafters.len();
        if drafters == 0 {
            return 0;
        }
        let drafts = std::mem::take(&mut answer.drafts);
        let tuning = self.tunings.entry(s.id).or_insert_with(|| Tuning::new(drafters));
        self.tuner.rested(tuning, 1 + verified.accepted());
        self.tuner.note_passed(tuning, &s.tokens);
        let (drafted, Some(first)) = (drafts.count(), verified.seen.first()) else { return 0 };
        answer.speculation.drafted += drafted;
        answer.speculation.accepted += verified.accepted();
        answer.speculation.steps += 1;
        self.tuner.note(tuning, drafts.by, &drafts.chains, &verified.seen);
        for d in self.drafters.iter_mut().filter(|d| d.drafter.listens() && !said.is_empty()) {
            d.drafter.said(&asked(s, 1), drafts.tokens(0), said, first.accepted);
        }
        drafted
    }

    /// A sequence has ended.
    pub fn forget(&mut self, s: &Sequence) {
        if matches!(s.purpose, Purpose::Answer(_)) {
            self.tunings.remove(&s.id);
            let ask = asked(s, 1);
            self.drafters.iter_mut().for_each(|d| d.drafter.forget(&ask));
        }
    }
}

fn asked(s: &Sequence, most: usize) -> DraftAsk<'_> {
    let shared = s.terms.cache_salt.is_none();
    let edits = DraftEdits(if let Purpose::Answer(answer) = &s.purpose { Some(&**answer) } else { None });
    let (id, tokens, prompt_len) = (s.id, &s.tokens[..], s.prompt_len);
    DraftAsk { id, tokens, prompt_len, shared, most, branches: 1, edits }
}
