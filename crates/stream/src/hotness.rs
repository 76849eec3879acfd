//! How hot each expert is: uses that fade, as fast as has found the most of late.
//!
//! Uses that fade at once order experts by recent use (LRU), uses that hardly fade by how often they are used (LFU); Lee
//! et al. 1996 (LRFU) describe all between them. None is best for every model: where a token's experts are those of the
//! token before, frequency finds a quarter less than recency, and where some experts are always hot it is the other way
//! round. So each half-life has a twin of the cache, of numbers alone, and the one that finds the most leads.

/// Tokens after which a use counts half. With the first one, the order is that of recent use.
const HALF_LIVES: [f64; 3] = [1.0, 8.0, 64.0];
/// Tokens after which a use counts half that is kept for the next run.
pub const KEPT_HALF_LIFE: f64 = HALF_LIVES[HALF_LIVES.len() - 1];
/// Experts asked for that what a twin finds is reckoned over.
const MEMORY: f64 = 1024.0;
/// How much more another half-life has to find before it leads.
const BETTER: f64 = 1.02;

/// How much each expert was asked for, by number over all stacks.
#[derive(Clone, Debug)]
pub struct ExpertHotness {
    /// For each half-life the logarithm of the faded uses, with the time added that they fade in: the order of two experts
    /// stays as it is while time passes.
    ranks: Vec<[f64; HALF_LIVES.len()]>,
    /// The stack of each expert.
    stack: Vec<usize>,
    stacks: usize,
    twins: [FadingTwin; HALF_LIVES.len()],
    leader: usize,
    /// Tokens so far.
    now: f64,
}

/// What a cache would hold that evicts by one half-life.
#[derive(Clone, Debug)]
struct FadingTwin {
    free: usize,
    here: Vec<bool>,
    /// Of late.
    found: f64,
}

impl ExpertHotness {
    /// For a cache of `slots` experts of stacks of these lengths.
    pub fn new(lengths: &[usize], slots: usize) -> ExpertHotness {
        let stack: Vec<usize> = lengths.iter().enumerate().flat_map(|(i, &n)| vec![i; n]).collect();
        let twin = || FadingTwin { free: slots.max(1), here: vec![false; stack.len()], found: 0.0 };
        ExpertHotness {
            ranks: vec![[f64::NEG_INFINITY; HALF_LIVES.len()]; stack.len()],
            stacks: lengths.len(),
            twins: [twin(), twin(), twin()],
            // The slowest one is right about what was hot in an earlier run.
            leader: HALF_LIVES.len() - 1,
            now: 0.0,
            stack,
        }
    }

    /// Says how often an expert was asked for in an earlier run.
    pub fn recall(&mut self, number: usize, uses: f32) {
        self.ranks[number] = HALF_LIVES.map(|life| f64::from(uses).log2() + self.now / life);
    }

    /// Counts that experts of a stack were asked for by the rows of a step.
    pub fn ask(&mut self, stack: usize, numbers: &[usize]) {
        for life in 0..HALF_LIVES.len() {
            let found = numbers.iter().filter(|&&n| self.ask_twin(life, stack, n, numbers)).count();
            let kept = (1.0 - 1.0 / MEMORY).powi(numbers.len() as i32);
            self.twins[life].found = self.twins[life].found * kept + found as f64;
        }
        for &number in numbers {
            for (rank, life) in self.ranks[number].iter_mut().zip(HALF_LIVES) {
                *rank = ((*rank - self.now / life).exp2() + 1.0).log2() + self.now / life;
            }
        }
    }

    /// Passes the time of `tokens`, and chooses who leads.
    pub fn pass(&mut self, tokens: usize) {
        self.now += tokens as f64;
        let best = (0..HALF_LIVES.len()).max_by(|&a, &b| self.twins[a].found.total_cmp(&self.twins[b].found));
        if let Some(best) = best.filter(|&b| self.twins[b].found > BETTER * self.twins[self.leader].found) {
            self.leader = best;
        }
    }

    /// The LRFU score of an expert: the coldest is evicted first.
    pub fn rank(&self, number: usize) -> f64 {
        self.ranks[number][self.leader]
    }

    /// Faded uses of an expert, for the next run.
    pub fn uses(&self, number: usize) -> f32 {
        const SLOWEST: usize = HALF_LIVES.len() - 1;
        (self.ranks[number][SLOWEST] - self.now / KEPT_HALF_LIFE).exp2() as f32
    }

    /// Asks a twin for an expert, for which none of `held` is evicted; true if it was there.
    fn ask_twin(&mut self, life: usize, stack: usize, number: usize, held: &[usize]) -> bool {
        let twin = &self.twins[life];
        if twin.here[number] {
            return true;
        }
        if twin.free == 0 {
            let able = (0..self.ranks.len()).filter(|n| twin.here[*n] && !held.contains(n));
            let order = |n: &usize| (self.ranks[*n][life], self.distance(self.stack[*n], stack));
            let worst = |a: &usize, b: &usize| {
                let (a, b) = (order(a), order(b));
                a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))
            };
            let Some(victim) = able.min_by(worst) else { return false };
            self.twins[life].here[victim] = false;
            self.twins[life].free += 1;
        }
        let twin = &mut self.twins[life];
        (twin.here[number], twin.free) = (true, twin.free - 1);
        false
    }

    /// Stacks that are computed after stack `now` before it is the turn of `stack`.
    pub fn distance(&self, stack: usize, now: usize) -> usize {
        (stack + self.stacks - now - 1) % self.stacks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{Chance, distinct};
    use crate::lru::LruTwin;

    const STACKS: usize = 4;
    const EXPERTS: usize = 64;
    const ASKED: usize = 4;
    const SLOTS: usize = STACKS * EXPERTS * 3 / 10;

    /// Hits of a cache by hotness; of one that evicts by recent use; and of one by a single half-life each.
    fn hits(mut trace: impl FnMut(usize, usize) -> Vec<usize>) -> (usize, usize, Vec<usize>) {
        let mut hotness = ExpertHotness::new(&[EXPERTS; STACKS], SLOTS);
        let mut lru = LruTwin::new(SLOTS, STACKS * EXPERTS);
        let (mut here, mut mine, mut recent, mut single) = (vec![], 0, 0, vec![0; HALF_LIVES.len()]);
        for token in 0..600 {
            for stack in 0..STACKS {
                let numbers: Vec<usize> = trace(token, stack).iter().map(|e| stack * EXPERTS + e).collect();
                recent += numbers.iter().filter(|n| lru.ask(**n)).count();
                for (life, sum) in single.iter_mut().enumerate() {
                    *sum += numbers.iter().filter(|n| hotness.twins[life].here[**n]).count();
                }
                hotness.ask(stack, &numbers);
                for &n in &numbers {
                    if here.contains(&n) {
                        mine += 1;
                        continue;
                    }
                    if here.len() == SLOTS {
                        let able = (0..SLOTS).filter(|i| !numbers.contains(&here[*i]));
                        let rank = |i: &usize| hotness.rank(here[*i]);
                        let victim = able.min_by(|a, b| rank(a).total_cmp(&rank(b))).expect("slots");
                        here.swap_remove(victim);
                    }
                    here.push(n);
                }
            }
            hotness.pass(1);
        }
        (mine, recent, single)
    }

    fn holds_its_own((mine, recent, single): (usize, usize, Vec<usize>)) {
        let best = *single.iter().max().expect("half-lives");
        assert!(mine as f64 >= 0.96 * best as f64, "{mine} hits, by the best half-life of {single:?}");
        assert!(mine as f64 >= 0.96 * recent as f64, "{mine} hits, by recent use {recent}");
    }

    #[test]
    fn what_was_asked_for_lately_is_kept_where_tokens_follow_one_another() {
        let (mut chance, mut before) = (Chance(1), vec![vec![]; STACKS]);
        let found = hits(|_, stack| {
            let kept = std::mem::take(&mut before[stack]).into_iter().filter(|_| chance.below(2) == 0);
            let kept: Vec<usize> = kept.collect();
            before[stack] = distinct(ASKED, kept, || chance.below(EXPERTS));
            before[stack].clone()
        });
        assert!(found.2[0] as f64 > 1.1 * found.2[2] as f64, "recency is better here: {:?}", found.2);
        holds_its_own(found);
    }

    #[test]
    fn what_is_always_asked_for_is_kept_where_some_are_hot() {
        let mut chance = Chance(2);
        let found = hits(|_, _| {
            distinct(ASKED, vec![], || {
                let n = chance.below(EXPERTS);
                chance.below(n + 1)
            })
        });
        assert!(found.2[2] as f64 > 1.05 * found.2[0] as f64, "frequency is better here: {:?}", found.2);
        holds_its_own(found);
    }

    #[test]
    fn uses_fade_by_half_and_are_recalled() {
        let mut hotness = ExpertHotness::new(&[4], 2);
        hotness.ask(0, &[1, 2]);
        hotness.ask(0, &[1]);
        hotness.pass(64);
        assert_eq!([0, 1, 2].map(|n| hotness.uses(n)), [0.0, 1.0, 0.5]);
        let mut next = ExpertHotness::new(&[4], 2);
        (0..4).for_each(|n| next.recall(n, hotness.uses(n)));
        assert!(next.rank(1) > next.rank(2) && next.rank(2) > next.rank(0));
        assert_eq!(next.rank(0), next.rank(3));
    }
}
