//! Which share of the experts that rows ask for is in memory: predicted for the cost model.

use lamina_stream::{ExpertUses, KEPT_HALF_LIFE, ReuseCounts};

/// How much more often than by chance a token takes an expert that the token before has taken, where nothing was counted:
/// Jiang et al. 2024 ("Mixtral of Experts", table 5) find 14 % of first choices repeated in the first layer, 28 % in the
/// middle and 23 % in the last, where chance gives 12.5 %: 0.02, 0.18 and 0.12 more.
const REPEATED: f64 = 0.1;

/// A cache of experts, and what is known of how they are asked for.
///
/// Two laws are asked, and the higher one counts, since the cache follows recency or frequency, whichever finds more
/// ([`ExpertHotness`](lamina_stream::ExpertHotness)):
/// * *frequency*: rows ask independently, each expert at a rate of its own, and the cache holds those of the highest rates.
///   Kept uses are a sample of these rates: in each stack they are drawn towards their mean by as much as chance alone
///   would spread them (empirical Bayes), so that a uniform router, whose counts differ by chance, gains nothing.
/// * *recency*: the distances of reuse that were counted; where none were, [`REPEATED`].
///
/// A step that asks for more than the cache holds finds what the first law says: it passes through.
#[derive(Clone, Debug)]
pub struct ExpertHits {
    slots: usize,
    /// Rate of each expert as a share of what its stack is asked for, the highest first.
    rates: Vec<f64>,
    reuse: Option<ReuseCounts>,
}

impl ExpertHits {
    /// A cache of `slots` experts of stacks of these lengths, of which a row takes `chosen` each, with what is `kept` of
    /// earlier runs.
    pub fn new(slots: usize, lengths: &[usize], chosen: usize, kept: Option<&ExpertUses>) -> ExpertHits {
        let even = |n: &usize| vec![1.0 / (*n).max(1) as f64; *n];
        let mut rates: Vec<f64> = match kept {
            Some(kept) => kept.uses.iter().flat_map(|uses| rates(uses, chosen)).collect(),
            None => lengths.iter().flat_map(even).collect(),
        };
        rates.sort_unstable_by(|a, b| b.total_cmp(a));
        ExpertHits { slots, rates, reuse: kept.map(|k| k.reuse.clone()) }
    }

    /// True where uses were counted in earlier runs.
    pub fn is_counted(&self) -> bool {
        self.reuse.as_ref().is_some_and(|r| r.found_within(1.0).is_some())
    }

    /// What steps of `rows` rows find that take `chosen` of each stack.
    pub fn of(&self, rows: f64, chosen: usize) -> FoundExperts {
        if self.slots >= self.rates.len() {
            return FoundExperts { share: 1.0, passes_through: false };
        }
        let touched: Vec<f64> =
            self.rates.iter().map(|rate| 1.0 - (1.0 - (rate * chosen as f64).min(1.0)).powf(rows)).collect();
        let all: f64 = touched.iter().sum();
        let frequent = touched[..self.slots].iter().sum::<f64>() / all.max(1e-12);
        if all > self.slots as f64 {
            return FoundExperts { share: frequent, passes_through: true };
        }
        let slots = self.slots as f64 / self.rates.len() as f64;
        let counted = self.reuse.as_ref().and_then(|r| r.found_within(slots));
        let recent = counted.unwrap_or(REPEATED + (1.0 - REPEATED) * slots);
        FoundExperts { share: recent.max(frequent), passes_through: false }
    }
}

/// What a step finds in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoundExperts {
    /// Share of the experts that its rows ask for.
    pub share: f64,
    /// It asks for more experts than there are slots: they come and go, and nothing is computed while they are read.
    pub passes_through: bool,
}

/// Rates of experts of which a row takes `chosen`, from their faded uses.
fn rates(uses: &[f32], chosen: usize) -> Vec<f64> {
    let n = uses.len() as f64;
    let uses: Vec<f64> = uses.iter().map(|u| f64::from(*u)).collect();
    let mean = uses.iter().sum::<f64>() / n;
    if mean <= 0.0 || n < 2.0 {
        return vec![1.0 / n; uses.len()];
    }
    let spread = uses.iter().map(|u| (u - mean) * (u - mean)).sum::<f64>() / (n - 1.0);
    // A token `t` ago counts `fade^t`: the sum of the weights, and the sum of their squares as a share of it.
    let fade = 0.5_f64.powf(1.0 / KEPT_HALF_LIFE);
    let tokens = mean * n / chosen.max(1) as f64;
    let left = (1.0 - tokens * (1.0 - fade)).max(0.0);
    let by_chance = mean * (1.0 + left) / (1.0 + fade) * (1.0 - chosen as f64 / n).max(0.0);
    let true_share = if spread > by_chance { 1.0 - by_chance / spread } else { 0.0 };
    uses.iter().map(|u| (mean + true_share * (u - mean)) / (mean * n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{Chance, distinct};
    use lamina_stream::{ExpertHotness, ReuseDistances};

    const STACKS: usize = 4;
    const EXPERTS: usize = 64;
    const CHOSEN: usize = 4;

    /// A cache that goes by hotness, told one expert after the other; and what is kept of it.
    struct SlowCache {
        hotness: ExpertHotness,
        reuse: ReuseDistances,
        here: Vec<usize>,
        slots: usize,
        hits: usize,
    }

    impl SlowCache {
        fn new(slots: usize) -> SlowCache {
            let reuse = ReuseDistances::new(STACKS * EXPERTS, ReuseCounts::default());
            SlowCache {
                hotness: ExpertHotness::new(&[EXPERTS; STACKS], slots),
                reuse,
                here: vec![],
                slots,
                hits: 0,
            }
        }

        fn ask(&mut self, stack: usize, experts: &[usize]) {
            let numbers: Vec<usize> = experts.iter().map(|e| stack * EXPERTS + e).collect();
            self.hits += numbers.iter().filter(|n| self.here.contains(n)).count();
            self.hotness.ask(stack, &numbers);
            for &number in &numbers {
                self.reuse.ask(number);
            }
            for &number in &numbers {
                if self.here.contains(&number) {
                    continue;
                }
                if self.here.len() == self.slots {
                    let able = (0..self.slots).filter(|i| !numbers.contains(&self.here[*i]));
                    let rank = |i: &usize| self.hotness.rank(self.here[*i]);
                    let victim = able.min_by(|a, b| rank(a).total_cmp(&rank(b))).expect("slots");
                    self.here.swap_remove(victim);
                }
                self.here.push(number);
            }
        }

        fn kept(&self) -> ExpertUses {
            let of = |stack: usize| (0..EXPERTS).map(|e| self.hotness.uses(stack * EXPERTS + e)).collect();
            ExpertUses { uses: (0..STACKS).map(of).collect(), reuse: self.reuse.counts().clone() }
        }
    }

    /// What is predicted after `before` tokens, and the share that is found in the 500 tokens behind them.
    fn predicted(slots: usize, before: usize, mut trace: impl FnMut(usize) -> Vec<usize>) -> (f64, f64) {
        let mut cache = SlowCache::new(slots);
        let mut pass = |cache: &mut SlowCache, tokens: usize| {
            for _ in 0..tokens {
                (0..STACKS).for_each(|stack| cache.ask(stack, &trace(stack)));
                cache.hotness.pass(1);
            }
        };
        pass(&mut cache, before);
        let hits = ExpertHits::new(slots, &[EXPERTS; STACKS], CHOSEN, Some(&cache.kept()));
        assert!(hits.is_counted());
        cache.hits = 0;
        pass(&mut cache, 500);
        (hits.of(1.0, CHOSEN).share, cache.hits as f64 / (500 * STACKS * CHOSEN) as f64)
    }

    /// A number below `n`, those of low rank more often (Zipf's law).
    fn zipf(chance: &mut Chance, n: usize) -> usize {
        let all: f64 = (1..=n).map(|rank| 1.0 / rank as f64).sum();
        let mut left = chance.below(1 << 20) as f64 / f64::from(1 << 20) * all;
        let under = |rank: &usize| {
            left -= 1.0 / *rank as f64;
            left < 0.0
        };
        (1..=n).find(under).unwrap_or(n) - 1
    }

    /// Traces: a token's experts of a stack, by the number of the call.
    fn trace(kind: &str) -> impl FnMut(usize) -> Vec<usize> {
        let (mut chance, mut calls, mut before) = (Chance(7), 0, vec![vec![]; STACKS]);
        move |stack| {
            calls += 1;
            let token = calls / STACKS;
            let experts = match kind {
                "uniform" => distinct(CHOSEN, vec![], || chance.below(EXPERTS)),
                "zipf" => distinct(CHOSEN, vec![], || (zipf(&mut chance, EXPERTS) * 7 + stack) % EXPERTS),
                // Every expert is the hottest for a while.
                "drifting" => distinct(CHOSEN, vec![], || (zipf(&mut chance, EXPERTS) + token / 8) % EXPERTS),
                _ => {
                    let last = std::mem::take(&mut before[stack]);
                    let kept = last.into_iter().filter(|_| chance.below(2) == 0).collect();
                    distinct(CHOSEN, kept, || chance.below(EXPERTS))
                }
            };
            before[stack].clone_from(&experts);
            experts
        }
    }

    #[test]
    fn what_is_predicted_from_counts_is_found() {
        for kind in ["uniform", "zipf", "drifting", "repeating"] {
            for slots in [40, 80, 150] {
                for before in [60, 200, 600] {
                    let (told, found) = predicted(slots, before, trace(kind));
                    println!(
                        "{kind}, {slots} slots after {before} tokens: {told:.3} predicted, {found:.3} found"
                    );
                    assert!((told - found).abs() < 0.08, "{kind}, {slots} slots: {told:.3}, but {found:.3}");
                }
            }
        }
    }

    #[test]
    fn without_counts_a_little_more_than_chance_is_found_and_long_steps_pass_through() {
        let hits = ExpertHits::new(128, &[EXPERTS; STACKS], CHOSEN, None);
        assert!(!hits.is_counted());
        assert_eq!(hits.of(1.0, CHOSEN), FoundExperts { share: 0.55, passes_through: false });
        let long = hits.of(64.0, CHOSEN);
        assert!(long.passes_through && (long.share - 0.5).abs() < 1e-9, "{long:?}");
        let all = ExpertHits::new(256, &[EXPERTS; STACKS], CHOSEN, None);
        assert_eq!(all.of(64.0, CHOSEN), FoundExperts { share: 1.0, passes_through: false });
    }

    #[test]
    fn rates_of_a_sample_are_drawn_to_their_mean_by_what_is_chance() {
        let even = rates(&[5.0, 7.0, 6.0, 6.0], 1);
        assert!(even.iter().all(|r| (r - 0.25).abs() < 1e-9), "{even:?}");
        let uneven = rates(&[60.0, 1.0, 1.0, 1.0], 1);
        assert!(uneven[0] > 0.9 && (uneven.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{uneven:?}");
        assert_eq!(rates(&[0.0; 4], 1), [0.25; 4]);
    }
}
