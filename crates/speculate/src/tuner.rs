//! How often guesses are right: measured acceptance, of each drafter and in each sequence, by what a guess rests on.
//!
//! A guess that gets no row is compared with the token that comes in its place: so look-ups, which guess at no cost, are
//! judged at no cost. A drafter that computes is not even asked where it does not pay: it is tried again now and then, and
//! since it has to take in the sequence's text first, for one of all sequences at a time.

use crate::draft::{DraftChain, Guesses, SIGNS, Verified};

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
    /// Of first chains, whatever the sign.
    all: Rate,
}

impl Rates {
    /// Guesses that an earlier chain has were noted with it.
    fn note(&mut self, chain: &DraftChain, seen: Verified, memory: f32) {
        for (i, &sign) in chain.guesses.signs.iter().enumerate().take(seen.compared).skip(chain.shared) {
            self.by_sign[usize::from(sign)].note(i < seen.accepted, memory);
        }
    }

    fn note_first(&mut self, seen: Verified, memory: f32) {
        (0..seen.compared).for_each(|i| self.all.note(i < seen.accepted, memory));
    }

    fn of(&self, sign: u8, prior: f32, trust: f32) -> f32 {
        self.by_sign[usize::from(sign)].mean(prior, trust)
    }
}

/// What is known of one sequence's drafts.
#[derive(Clone, Debug)]
pub(crate) struct Tuning {
    drafters: Vec<DrafterTuning>,
    passed: Option<PassedGuess>,
}

/// A guess that got no row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassedGuess {
    /// Its drafter.
    pub by: usize,
    /// Place of the token that it stands for.
    pub at: usize,
    pub token: u32,
    pub sign: u8,
}

/// What is known of one drafter's guesses, for one sequence or all.
#[derive(Clone, Debug, Default)]
struct DrafterTuning {
    rates: Rates,
    rest: Rest,
}

/// Time without guesses of a drafter.
#[derive(Clone, Copy, Debug)]
struct Rest {
    /// Tokens since its guesses were verified last, and how many there have to be before one is tried.
    idle: usize,
    pause: usize,
}

impl Default for Rest {
    fn default() -> Rest {
        Rest { idle: 0, pause: PAUSES.0 }
    }
}

impl Tuning {
    pub fn new(drafters: usize) -> Tuning {
        Tuning { drafters: vec![DrafterTuning::default(); drafters], passed: None }
    }

    /// Keeps a guess until it is known what comes in its place.
    pub fn pass(&mut self, guess: PassedGuess) {
        self.passed = Some(guess);
    }

    /// True when it is time to try a guess of drafter `by`, which computes, for this sequence again.
    pub fn is_due(&self, by: usize) -> bool {
        self.drafters[by].rest.is_over()
    }
}

impl Rest {
    fn is_over(&self) -> bool {
        self.idle >= self.pause
    }

    /// Guesses were verified: since they promised a gain, or to try them again.
    fn verified(&mut self, all_right: bool) {
        let tried = self.is_over();
        self.pause = if tried && !all_right { (2 * self.pause).min(PAUSES.1) } else { self.pause };
        if !tried && all_right {
            self.pause = PAUSES.0;
        }
        self.idle = 0;
    }
}

/// What is known of all drafts.
pub(crate) struct Tuner(Vec<DrafterTuning>);

impl Tuner {
    pub fn new(drafters: usize) -> Tuner {
        Tuner(vec![DrafterTuning::default(); drafters])
    }

    /// Counts tokens of a step of a sequence.
    pub fn rested(&mut self, of: &mut Tuning, tokens: usize) {
        self.0.iter_mut().chain(&mut of.drafters).for_each(|d| d.rest.idle += tokens);
    }

    /// True when it is time to try a guess of drafter `by` for any sequence again.
    pub fn is_due(&self, by: usize) -> bool {
        self.0[by].rest.is_over()
    }

    /// Learns from the guess that got no row, where `tokens` have come in its place since.
    pub fn note_passed(&mut self, of: &mut Tuning, tokens: &[u32]) {
        let Some(guess) = of.passed.take() else { return };
        let Some(&came) = tokens.get(guess.at) else { return };
        let hit = came == guess.token;
        self.0[guess.by].rates.by_sign[usize::from(guess.sign)].note(hit, MEMORY.0);
        of.drafters[guess.by].rates.by_sign[usize::from(guess.sign)].note(hit, MEMORY.1);
    }

    /// Learns from chains of drafter `by`.
    pub fn note(&mut self, of: &mut Tuning, by: usize, chains: &[DraftChain], seen: &[Verified]) {
        for (chain, &seen) in chains.iter().zip(seen) {
            self.0[by].rates.note(chain, seen, MEMORY.0);
            of.drafters[by].rates.note(chain, seen, MEMORY.1);
        }
        let Some((first, &seen)) = chains.iter().zip(seen).next() else { return };
        self.0[by].rates.note_first(seen, MEMORY.0);
        of.drafters[by].rates.note_first(seen, MEMORY.1);
        let all_right = seen.compared > 0 && seen.accepted == first.guesses.tokens.len();
        of.drafters[by].rest.verified(all_right);
        self.0[by].rest.verified(all_right);
    }

    /// Chance that guess `i` of a chain is kept, with all before it.
    pub fn chances(&self, of: &Tuning, by: usize, chain: &Guesses, prior: impl Fn(u8) -> f32) -> Vec<f32> {
        let mut chance = 1.0;
        let one = |&sign: &u8| {
            let of_all = self.0[by].rates.of(sign, prior(sign), TRUST.0);
            chance *= of.drafters[by].rates.of(sign, of_all, TRUST.1);
            chance
        };
        chain.signs.iter().map(one).collect()
    }

    /// Chance that a guess of drafter `by` is right, whatever it rests on.
    pub fn overall(&self, of: &Tuning, by: usize, prior: f32) -> f32 {
        of.drafters[by].rates.all.mean(self.0[by].rates.all.mean(prior, TRUST.0), TRUST.1)
    }
}

/// Tokens that a chain with these chances brings.
pub(crate) fn expected(chances: &[f32]) -> f32 {
    chances.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{
        Bid, Portion,
        testing::{budget, cost},
    };

    fn chain(len: usize) -> Guesses {
        Guesses { tokens: vec![7; len], signs: vec![0; len] }
    }

    fn drafted(len: usize) -> [DraftChain; 1] {
        [DraftChain { guesses: chain(len), shared: 0 }]
    }

    #[test]
    fn what_chains_share_is_noted_once() {
        let (mut tuner, mut of) = (Tuner::new(1), Tuning::new(1));
        let [first] = drafted(3);
        let branch = DraftChain { guesses: chain(2), shared: 1 };
        let seen = [Verified { accepted: 1, compared: 2 }, Verified { accepted: 2, compared: 2 }];
        tuner.note(&mut of, 0, &[first, branch], &seen);
        let near = |a: f32, b: f32| (a - b).abs() < 0.1;
        let Rates { by_sign: [rate, ..], all } = tuner.0[0].rates;
        assert!(near(rate.tries, 3.0) && near(rate.hits, 2.0), "{rate:?}");
        assert!(near(all.tries, 2.0) && near(all.hits, 1.0), "the first chain's: {all:?}");
    }

    #[test]
    fn a_drafter_that_is_always_wrong_is_soon_off_and_rarely_tried_again() {
        let (cost, mut tuner, mut of) = (cost(0.14), Tuner::new(1), Tuning::new(1));
        let mut rows = 0;
        for _ in 0..4096 {
            let chances = tuner.chances(&of, 0, &chain(8), |_| 0.5);
            let bid = Bid { chances, due: of.is_due(0), ..Bid::default() };
            let width = budget(&cost, 1, 16).divide(&[bid])[0].width;
            rows += width;
            match width {
                0 => tuner.rested(&mut of, 1),
                n => tuner.note(&mut of, 0, &drafted(n), &[Verified { accepted: 0, compared: 1 }]),
            }
        }
        assert!((5..60).contains(&rows), "{rows} rows in 4096 steps");
        // The next sequence knows it already.
        let chances = tuner.chances(&Tuning::new(1), 0, &chain(8), |_| 0.5);
        let bid = Bid { chances, ..Bid::default() };
        assert_eq!(budget(&cost, 1, 16).divide(&[bid]), [Portion::default()]);
    }

    #[test]
    fn a_drafter_that_is_always_wrong_is_rarely_tried_again_by_any_of_many_sequences() {
        let mut tuner = Tuner::new(1);
        let mut tried = 0;
        for _ in 0..100 {
            let mut of = Tuning::new(1);
            for _ in 0..128 {
                tuner.rested(&mut of, 1);
                if of.is_due(0) && tuner.is_due(0) {
                    tried += 1;
                    tuner.note(&mut of, 0, &drafted(1), &[Verified { accepted: 0, compared: 1 }]);
                }
            }
        }
        assert!((5..12).contains(&tried), "{tried} tries in 12,800 tokens");
        // One that turns good is tried by the next sequences again.
        tuner.note(&mut Tuning::new(1), 0, &drafted(1), &[Verified { accepted: 1, compared: 1 }]);
        tuner.rested(&mut Tuning::new(1), PAUSES.0);
        assert!(tuner.is_due(0));
    }

    #[test]
    fn guesses_without_rows_are_judged_by_what_comes() {
        let (mut tuner, mut of) = (Tuner::new(1), Tuning::new(1));
        let chance = |tuner: &Tuner, of: &Tuning| tuner.chances(of, 0, &chain(1), |_| 0.5)[0];
        let passed = |at, token| PassedGuess { by: 0, at, token, sign: 0 };
        for at in 0..16 {
            of.pass(passed(at, 9));
            tuner.note_passed(&mut of, &[7; 16][..=at]);
        }
        assert!(chance(&tuner, &of) < 0.1);
        // Another sequence starts with what is known; this one soon knows better.
        let mut other = Tuning::new(1);
        assert!(chance(&tuner, &other) < 0.1);
        for at in 0..16 {
            other.pass(passed(at, 7));
            tuner.note_passed(&mut other, &[7; 16][..=at]);
        }
        assert!(chance(&tuner, &other) > 0.8);
        // One that was judged is not judged again, and one whose token has not come never is.
        let before = chance(&tuner, &other);
        tuner.note_passed(&mut other, &[9; 32]);
        other.pass(passed(16, 7));
        tuner.note_passed(&mut other, &[7; 16]);
        tuner.note_passed(&mut other, &[9; 32]);
        assert_eq!(chance(&tuner, &other), before);
    }

    #[test]
    fn a_drafter_that_turns_good_is_taken_up_again() {
        let (cost, mut tuner, mut of) = (cost(0.14), Tuner::new(1), Tuning::new(1));
        let mut rows = [0; 2];
        for step in 0..12_000 {
            let good = step > 2000;
            let chances = tuner.chances(&of, 0, &chain(8), |_| 0.5);
            let bid = Bid { chances, due: of.is_due(0), ..Bid::default() };
            let width = budget(&cost, 1, 16).divide(&[bid])[0].width;
            rows[usize::from(good)] += width;
            let accepted = if good { width } else { 0 };
            match width {
                0 => tuner.rested(&mut of, 1),
                n => {
                    let seen = Verified { accepted, compared: n.min(accepted + 1) };
                    tuner.note(&mut of, 0, &drafted(n), &[seen]);
                }
            }
        }
        assert!(rows[0] < 60 && rows[1] > 10_000, "{rows:?}");
    }
}
