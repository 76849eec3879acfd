//! How many guesses are worth their rows: measured acceptance against measured cost of a step.
//!
//! A guess that is right with probability P brings P tokens and costs a row. Of all guesses that were made, those with
//! the highest P get rows as long as tokens per second rise; a sequence that gets none for long is tried again now and
//! then. All of it steers only how fast answers come.

use crate::{
    cost::{Cost, Size},
    drafting::{Guesses, SIGNS, Verified},
};

/// Speed that drafts must promise beside a step without.
const LEAST_GAIN: f64 = 1.02;
/// Guesses that are less likely never get a row.
const LEAST_CHANCE: f32 = 0.05;
/// Most drafts of a sequence in a step whose width follows measurement.
pub(super) const MOST_TUNED: usize = 16;
/// Tokens without drafts until one is tried again, at first and at most.
const PAUSES: (usize, usize) = (64, 4096);
/// Tries that a rate remembers, of a drafter and of one sequence.
const MEMORY: (f32, f32) = (128.0, 16.0);
/// Tries that a prior, and the drafter's own rate, count for.
const TRUST: (f32, f32) = (2.0, 3.0);

/// How often something was right lately.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    hits: f32,
    tries: f32,
}

impl Rate {
    fn note(&mut self, hit: bool, memory: f32) {
        let kept = 1.0 - 1.0 / memory;
        self.hits = self.hits * kept + f32::from(u8::from(hit));
        self.tries = self.tries * kept + 1.0;
    }

    fn mean(self, prior: f32, trust: f32) -> f32 {
        (self.hits + prior * trust) / (self.tries + trust)
    }
}

/// Acceptance of one drafter's guesses by their signs.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    by_sign: [Rate; SIGNS],
    /// Whatever the sign.
    all: Rate,
}

impl Rates {
    fn note(&mut self, chain: &Guesses, seen: Verified, memory: f32) {
        for (i, &sign) in chain.signs.iter().enumerate().take(seen.compared) {
            self.by_sign[usize::from(sign)].note(i < seen.accepted, memory);
            self.all.note(i < seen.accepted, memory);
        }
    }

    fn of(&self, sign: u8, prior: f32, trust: f32) -> f32 {
        self.by_sign[usize::from(sign)].mean(prior, trust)
    }
}

/// What is known of one sequence's drafts.
#[derive(Clone, Debug)]
pub(super) struct Tuning(Vec<DrafterTuning>);

/// What is known of one drafter's guesses for one sequence.
#[derive(Clone, Debug)]
struct DrafterTuning {
    rates: Rates,
    /// Tokens since its guesses were verified last, and how many there have to be before one is tried.
    idle: usize,
    pause: usize,
}

impl Tuning {
    pub fn new(drafters: usize) -> Tuning {
        Tuning(vec![DrafterTuning { rates: Rates::default(), idle: 0, pause: PAUSES.0 }; drafters])
    }

    /// Counts tokens of a step.
    pub fn rested(&mut self, tokens: usize) {
        self.0.iter_mut().for_each(|d| d.idle += tokens);
    }

    /// True when it is time to try a guess of drafter `by` again.
    pub fn is_due(&self, by: usize) -> bool {
        self.0[by].idle >= self.0[by].pause
    }
}

impl DrafterTuning {
    /// Its guesses were verified: since they promised a gain, or to try them again.
    fn verified(&mut self, all_right: bool) {
        let tried = self.idle >= self.pause;
        self.pause = if tried && !all_right { (2 * self.pause).min(PAUSES.1) } else { self.pause };
        if !tried && all_right {
            self.pause = PAUSES.0;
        }
        self.idle = 0;
    }
}

/// What is known of all drafts.
pub(super) struct Tuner {
    /// By drafter.
    rates: Vec<Rates>,
}

/// The chain of one sequence in a step, and how likely each of its guesses is to be kept.
pub(super) struct Bid {
    pub chances: Vec<f32>,
    /// It is tried with one draft although it may not pay.
    pub due: bool,
}

/// Who bids, beside what.
pub(super) struct Market<'a> {
    pub cost: &'a Cost,
    /// Rows that the step has without drafts, and what they see.
    pub size: Size,
    /// Sequences that get a token from it.
    pub answers: usize,
    /// Rows that are left.
    pub room: usize,
    /// Rows that a draft costs: two where what was computed behind a wrong one has to be computed again.
    pub rows_each: usize,
}

impl Tuner {
    pub fn new(drafters: usize) -> Tuner {
        Tuner { rates: vec![Rates::default(); drafters] }
    }

    /// Learns from a chain of drafter `by`.
    pub fn note(&mut self, of: &mut Tuning, by: usize, chain: &Guesses, seen: Verified) {
        self.rates[by].note(chain, seen, MEMORY.0);
        of.0[by].rates.note(chain, seen, MEMORY.1);
        of.0[by].verified(seen.compared > 0 && seen.accepted == chain.tokens.len());
    }

    /// Chance that guess `i` of a chain is kept, with all before it.
    pub fn chances(&self, of: &Tuning, by: usize, chain: &Guesses, prior: impl Fn(u8) -> f32) -> Vec<f32> {
        let mut chance = 1.0;
        let one = |&sign: &u8| {
            let of_all = self.rates[by].of(sign, prior(sign), TRUST.0);
            chance *= of.0[by].rates.of(sign, of_all, TRUST.1);
            chance
        };
        chain.signs.iter().map(one).collect()
    }

    /// Chance that a guess of drafter `by` is right, whatever it rests on.
    pub fn overall(&self, of: &Tuning, by: usize, prior: f32) -> f32 {
        of.0[by].rates.all.mean(self.rates[by].all.mean(prior, TRUST.0), TRUST.1)
    }
}

impl Market<'_> {
    fn seconds(&self, drafts: usize) -> f64 {
        self.cost.predict(Size { rows: self.size.rows + drafts * self.rows_each, ..self.size })
    }

    /// Rows of each bid: the most likely guesses first, as many as bring the most tokens per second.
    pub fn divide(&self, bids: &[Bid]) -> Vec<usize> {
        let mut widths = vec![0; bids.len()];
        let mut guesses: Vec<(f32, usize)> = bids
            .iter()
            .enumerate()
            .flat_map(|(i, b)| b.chances.iter().take(MOST_TUNED).map(move |&c| (c, i)))
            .filter(|(chance, _)| *chance >= LEAST_CHANCE)
            .collect();
        // Stable, and chances fall along a chain: its guesses stay in turn.
        guesses.sort_by(|a, b| b.0.total_cmp(&a.0));
        guesses.truncate(self.room);
        let take = self.best(&guesses);
        guesses[..take].iter().for_each(|&(_, i)| widths[i] += 1);
        let left = self.room - take;
        let due = bids.iter().enumerate().filter(|(i, b)| b.due && !b.chances.is_empty() && widths[*i] == 0);
        due.map(|(i, _)| i).take(left).collect::<Vec<_>>().into_iter().for_each(|i| widths[i] = 1);
        widths
    }

    /// How many of the guesses, in their order, bring the most tokens per second; 0 where that is hardly more than none.
    fn best(&self, guesses: &[(f32, usize)]) -> usize {
        let mut tokens = self.answers as f64;
        let (mut best, mut take) = (LEAST_GAIN * tokens / self.seconds(0), 0);
        for (i, &(chance, _)) in guesses.iter().enumerate() {
            tokens += f64::from(chance);
            let speed = tokens / self.seconds(i + 1);
            if speed > best {
                (best, take) = (speed, i + 1);
            }
        }
        take
    }

    /// How many guesses of each of `askers` sequences pay, where a guess is right with probability `chance` and each
    /// depth takes `seconds` of the drafter.
    pub fn depth(&self, askers: usize, chance: f32, seconds: f64) -> usize {
        let most = (self.room / askers.max(1)).min(MOST_TUNED);
        let (mut tokens, mut each) = (self.answers as f64, 1.0);
        let (mut best, mut take) = (LEAST_GAIN * tokens / self.seconds(0), 0);
        for k in 1..=most {
            each *= f64::from(chance);
            tokens += each * askers as f64;
            let speed = tokens / (self.seconds(k * askers) + k as f64 * seconds);
            if speed > best {
                (best, take) = (speed, k);
            }
        }
        take
    }
}

/// Tokens that a chain with these chances brings.
pub(super) fn expected(chances: &[f32]) -> f32 {
    chances.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    /// Measured steps in which each row behind the first costs `more` of the first one.
    fn cost(more: f64) -> Cost {
        let mut cost = Cost::default();
        for _ in 0..40 {
            for rows in 1..=24 {
                let time = Duration::from_secs_f64(1.0 + more * (rows - 1) as f64);
                cost.note(Size { rows, depth: 9 }, time);
            }
        }
        cost
    }

    fn market(cost: &Cost, answers: usize, room: usize) -> Market<'_> {
        Market { cost, size: Size { rows: answers, depth: 9 }, answers, room, rows_each: 1 }
    }

    fn chain(len: usize) -> Guesses {
        Guesses { tokens: vec![7; len], signs: vec![0; len] }
    }

    fn bid(chance: f32, len: usize) -> Bid {
        Bid { chances: (1..=len).map(|i| chance.powi(i as i32)).collect(), due: false }
    }

    #[test]
    fn rows_go_to_the_likely_and_only_while_they_pay() {
        let cheap = cost(0.1);
        let widths = market(&cheap, 2, 16).divide(&[bid(0.9, 8), bid(0.3, 8)]);
        assert!(widths[0] >= 6 && widths[1] <= 2, "{widths:?}");
        let dear = cost(1.0);
        assert_eq!(market(&dear, 2, 16).divide(&[bid(0.9, 8), bid(0.3, 8)]), [0, 0]);
        assert_eq!(market(&cheap, 2, 3).divide(&[bid(0.9, 8), bid(0.9, 8)]).iter().sum::<usize>(), 3);
        assert_eq!(market(&cheap, 2, 0).divide(&[bid(0.9, 8), bid(0.9, 8)]), [0, 0]);
    }

    #[test]
    fn what_is_due_gets_one_draft() {
        let dear = cost(1.0);
        let due = |len| Bid { due: true, ..bid(0.2, len) };
        assert_eq!(market(&dear, 2, 16).divide(&[due(8), due(0), bid(0.2, 8)]), [1, 0, 0]);
        assert_eq!(market(&dear, 2, 0).divide(&[due(8)]), [0]);
    }

    #[test]
    fn depth_follows_acceptance_and_what_the_drafter_costs() {
        let cheap = cost(0.1);
        let market = market(&cheap, 1, 16);
        assert!(market.depth(1, 0.8, 0.05) > market.depth(1, 0.5, 0.05));
        assert!(market.depth(1, 0.8, 0.05) > market.depth(1, 0.8, 0.3));
        assert_eq!(market.depth(1, 0.3, 0.5), 0);
        assert_eq!(market.depth(20, 0.9, 0.0), 0, "there is no room");
    }

    #[test]
    fn a_drafter_that_is_always_wrong_is_soon_off_and_rarely_tried_again() {
        let (cost, mut tuner, mut of) = (cost(0.14), Tuner::new(1), Tuning::new(1));
        let mut rows = 0;
        for _ in 0..4096 {
            let chances = tuner.chances(&of, 0, &chain(8), |_| 0.5);
            let width = market(&cost, 1, 16).divide(&[Bid { chances, due: of.is_due(0) }])[0];
            rows += width;
            match width {
                0 => of.rested(1),
                n => tuner.note(&mut of, 0, &chain(n), Verified { accepted: 0, compared: 1 }),
            }
        }
        assert!((5..60).contains(&rows), "{rows} rows in 4096 steps");
        // The next sequence knows it already.
        let chances = tuner.chances(&Tuning::new(1), 0, &chain(8), |_| 0.5);
        assert_eq!(market(&cost, 1, 16).divide(&[Bid { chances, due: false }]), [0]);
    }

    #[test]
    fn a_drafter_that_turns_good_is_taken_up_again() {
        let (cost, mut tuner, mut of) = (cost(0.14), Tuner::new(1), Tuning::new(1));
        let mut rows = [0; 2];
        for step in 0..12_000 {
            let good = step > 2000;
            let chances = tuner.chances(&of, 0, &chain(8), |_| 0.5);
            let width = market(&cost, 1, 16).divide(&[Bid { chances, due: of.is_due(0) }])[0];
            rows[usize::from(good)] += width;
            let accepted = if good { width } else { 0 };
            match width {
                0 => of.rested(1),
                n => tuner.note(&mut of, 0, &chain(n), Verified { accepted, compared: n.min(accepted + 1) }),
            }
        }
        assert!(rows[0] < 60 && rows[1] > 10_000, "{rows:?}");
    }

    proptest! {
        #[test]
        fn room_and_chains_are_kept(
            bids in prop::collection::vec((0.0f32..1.0, 0usize..20, any::<bool>()), 0..9),
            room in 0usize..40, more in 0.0f64..1.0,
        ) {
            let cost = cost(more);
            let bids: Vec<Bid> = bids.iter().map(|&(c, len, due)| Bid { due, ..bid(c, len) }).collect();
            let widths = market(&cost, bids.len().max(1), room).divide(&bids);
            prop_assert!(widths.iter().sum::<usize>() <= room);
            prop_assert!(widths.iter().zip(&bids).all(|(w, b)| *w <= b.chances.len().min(MOST_TUNED)));
        }
    }
}
