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
mod medusa;
mod model;
mod ngram;
mod round;
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
    drafting::{Guesses, MOST_DRAFTS, Speculate, Verified},
    purpose::Purpose,
    schedule::{Schedule, Share, StepPlan},
    sequence::Sequence,
};
use drafter::DraftEdits;
use lamina_plan::Step;
use std::{collections::HashMap, time::Instant};
use tuner::{Bid, MOST_TUNED, Market, Tuner, Tuning, expected};
use watch::WatchedMarks;

/// Sequences with more rows than so in a step get no drafts: most of these rows would be computed again where a
/// recurrent state has to be put back.
const MOST_OWN_ROWS: usize = MOST_DRAFTS + 1;
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
    /// Rows that a draft costs.
    rows_each: usize,
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

/// A sequence that may get drafts in a step.
struct DraftSeat {
    /// Index of its share.
    share: usize,
    seq: usize,
    id: u64,
    most: usize,
    speculate: Speculate,
    offer: Option<Offer>,
}

/// The best chain for a sequence so far.
struct Offer {
    by: usize,
    guesses: Guesses,
    chances: Vec<f32>,
    due: bool,
}

impl Speculator {
    /// With drafters for a machine.
    pub fn new(drafters: Vec<Box<dyn Drafter>>, step: &dyn Step) -> Speculator {
        let plan = step.plan();
        let marks = drafters.iter().flat_map(|d| d.taps().iter().copied()).collect();
        // Wrong drafts cost their rows twice where a recurrent state has to be put back.
        let recurrent = plan.kv.state_len() > 0;
        let loaded = |drafter| LoadedDrafter { drafter, failed: false, seconds: 0.0 };
        Speculator {
            tuner: Tuner::new(drafters.len()),
            drafters: drafters.into_iter().map(loaded).collect(),
            tunings: HashMap::new(),
            rows_each: if recurrent { 2 } else { 1 },
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
        let market = Market { cost, size, answers, room, rows_each: self.rows_each };
        for by in self.order() {
            self.ask(by, &mut seats, schedule, &market);
        }
        for seat in &mut seats {
            self.cut(seat, &mut schedule.running[seat.seq]);
        }
        let widths = divide(&seats, &market);
        for (seat, width) in seats.into_iter().zip(widths) {
            self.put(seat, width, plan, schedule);
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
        let asks: Vec<_> =
            able.iter().map(|(most, seat)| asked(&schedule.running[seat.seq], *most)).collect();
        let begin = Instant::now();
        let Ok(chains) = self.drafters[by].drafter.propose(&asks) else {
            self.drafters[by].failed = true;
            return;
        };
        // Rounds without a guess computed prompts.
        let depth = chains.iter().map(|c| c.tokens.len()).max().unwrap_or(0);
        let mean = &mut self.drafters[by].seconds;
        if depth > 0 {
            let seconds = begin.elapsed().as_secs_f64() / depth as f64;
            *mean = if *mean == 0.0 { seconds } else { *mean + (seconds - *mean) * WEIGHT };
        }
        for ((most, seat), mut guesses) in able.into_iter().zip(chains) {
            guesses.truncate(most);
            let offer = self.offer(by, seat.id, guesses);
            let has = seat.offer.as_ref().map_or(0.0, |o| expected(&o.chances));
            if expected(&offer.chances) > has {
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
            let has = seat.offer.as_ref().map_or(0.0, |o| expected(&o.chances));
            let brings: f32 = (1..=depth).map(|k| chance.powi(k as i32)).sum();
            match (depth, tuning.is_due(by)) {
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
                    let due = tunings.get(&seat.id).is_some_and(|t| t.is_due(by));
                    *most = depth.max(usize::from(due)).min(*most);
                }
                *most > 0
            });
        }
    }

    fn offer(&mut self, by: usize, id: u64, guesses: Guesses) -> Offer {
        let drafters = self.drafters.len();
        let tuning = self.tunings.entry(id).or_insert_with(|| Tuning::new(drafters));
        let drafter = &self.drafters[by].drafter;
        let chances = self.tuner.chances(tuning, by, &guesses, |sign| drafter.prior(sign));
        Offer { by, guesses, chances, due: tuning.is_due(by) }
    }

    /// Cuts an offer at the first token that cannot be the answer's next one, or that ends it.
    fn cut(&self, seat: &mut DraftSeat, s: &mut Sequence) {
        let (Some(offer), Purpose::Answer(answer)) = (&mut seat.offer, &mut s.purpose) else { return };
        let ends = &answer.generation.end_tokens;
        let known = |t: &&u32| **t < self.vocab && !ends.contains(t);
        let mut len = offer.guesses.tokens.iter().take_while(known).count();
        len = len.min(answer.legal(&offer.guesses.tokens[..len]));
        offer.guesses.truncate(len);
        offer.chances.truncate(len);
    }

    /// Gives a sequence its drafts, as many as there are pages for.
    fn put(&mut self, seat: DraftSeat, width: usize, plan: &mut StepPlan, schedule: &mut Schedule) {
        let Some(mut offer) = seat.offer.filter(|_| width > 0) else { return };
        let width = schedule.extend(plan, seat.share, width);
        offer.guesses.truncate(width);
        if let (1.., Purpose::Answer(answer)) = (width, &mut schedule.running[seat.seq].purpose) {
            answer.speculation.method = self.drafters[offer.by].drafter.name();
            answer.drafts.by = offer.by;
            answer.drafts.guesses = offer.guesses;
        }
    }

    /// Learns what came of a sequence's step; `said` has the likeliest token of its drafts' rows, where drafters listen.
    pub fn learn(&mut self, s: &mut Sequence, seen: Verified, said: &[u32]) {
        let (Purpose::Answer(answer), drafters) = (&mut s.purpose, self.drafters.len()) else { return };
        if drafters == 0 {
            return;
        }
        let guesses = std::mem::take(&mut answer.drafts.guesses);
        let tuning = self.tunings.entry(s.id).or_insert_with(|| Tuning::new(drafters));
        tuning.rested(1 + seen.accepted);
        if guesses.tokens.is_empty() {
            return;
        }
        answer.speculation.drafted += guesses.tokens.len();
        answer.speculation.accepted += seen.accepted;
        answer.speculation.steps += 1;
        self.tuner.note(tuning, answer.drafts.by, &guesses, seen);
        for d in self.drafters.iter_mut().filter(|d| d.drafter.listens() && !said.is_empty()) {
            d.drafter.said(&asked(s, 1), &guesses.tokens, said, seen.accepted);
        }
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
    DraftAsk { id: s.id, tokens: &s.tokens, prompt_len: s.prompt_len, shared, most, edits }
}

/// What drafts may have.
#[derive(Clone, Copy)]
struct SeatRoom {
    /// Rows that are left in a step.
    rows: usize,
    /// Width of requests that do not say.
    width: Option<usize>,
}

/// The sequences that may get drafts in a step.
fn seats(plan: &StepPlan, schedule: &Schedule, context: usize, room: SeatRoom) -> Vec<DraftSeat> {
    // While prompts are computed, rows are not free. A prompt without rows may wait for a step of answers alone to be
    // measured (`Cost::prompt_rows`), which steps with drafts would put off for ever.
    let going_on = |share: &Share| goes_on(share, &schedule.running[share.seq]);
    let all_have = schedule.running.iter().filter(|s| !s.paused).count() == plan.shares.len();
    if !all_have {
        return vec![];
    }
    let quiet = plan.shares.iter().all(going_on);
    let seat = |(i, share): (usize, &Share)| {
        let s = &schedule.running[share.seq];
        let Purpose::Answer(answer) = &s.purpose else { return None };
        let mut speculate = answer.generation.speculate.clone();
        speculate.width = speculate.width.or(room.width);
        let width = speculate.width.unwrap_or(if quiet { MOST_TUNED } else { 0 });
        // The last token of an answer is chosen and not computed.
        let most = width.min(room.rows).min(s.room(context).saturating_sub(1));
        let (id, seq) = (s.id, share.seq);
        let able = most > 0 && going_on(share);
        able.then_some(DraftSeat { share: i, seq, id, most, speculate, offer: None })
    };
    plan.shares.iter().enumerate().filter_map(seat).collect()
}

/// True for the rows of an answer that has begun, up to its last token.
fn goes_on(share: &Share, s: &Sequence) -> bool {
    share.left == 0 && s.answered() > 0 && share.rows <= MOST_OWN_ROWS && s.is_drafted()
}

/// Drafts of each seat: of a fixed width as many as were asked for, of others what pays.
fn divide(seats: &[DraftSeat], market: &Market<'_>) -> Vec<usize> {
    let mut left = market.room;
    let fixed = |seat: &DraftSeat| {
        let offer = seat.offer.as_ref().filter(|_| seat.speculate.width.is_some());
        let width = offer.map_or(0, |o| o.guesses.tokens.len()).min(left);
        left -= width;
        width
    };
    let mut widths: Vec<_> = seats.iter().map(fixed).collect();
    let bid = |seat: &DraftSeat| match &seat.offer {
        Some(o) if seat.speculate.width.is_none() => Bid { chances: o.chances.clone(), due: o.due },
        _ => Bid { chances: vec![], due: false },
    };
    let bids: Vec<_> = seats.iter().map(bid).collect();
    let tuned = Market {
        room: left,
        size: Size { rows: market.size.rows + market.room - left, ..market.size },
        ..*market
    };
    widths.iter_mut().zip(tuned.divide(&bids)).for_each(|(w, more)| *w += more);
    widths
}
