//! How many other experts are asked for between two uses of one: what any cache by recent use would find.

/// Bins that distances are counted in: each is one part of all experts.
pub const BINS: usize = 64;
/// Asks after which older ones begin to count less: texts change.
const MEMORY: f32 = 65536.0;

/// Distances of reuse: the number of other experts that were asked for between two uses of one (Mattson et al. 1970).
/// A cache of `n` that evicts the least recently used finds exactly what has a distance below `n`, so one count tells of
/// caches of all sizes.
#[derive(Clone, Debug)]
pub struct ReuseDistances {
    /// When each number was last used, counted from 1; 0 for never.
    last: Vec<usize>,
    /// Sums of a Fenwick tree over times: one for each number, at its last use.
    tree: Vec<u32>,
    now: usize,
    seen: usize,
    counts: ReuseCounts,
}

/// Counted distances.
#[derive(Clone, Debug, PartialEq)]
pub struct ReuseCounts {
    /// Uses by their distance.
    pub found: Vec<f32>,
    /// First uses, by the number of experts that were used before: their distance is at least that.
    pub first: Vec<f32>,
}

impl Default for ReuseCounts {
    fn default() -> Self {
        ReuseCounts { found: vec![0.0; BINS], first: vec![0.0; BINS] }
    }
}

impl ReuseDistances {
    /// Of numbers below `count`, after what was `counted` in earlier runs.
    pub fn new(count: usize, counts: ReuseCounts) -> ReuseDistances {
        ReuseDistances { last: vec![0; count], tree: vec![0; 4 * count + 2], now: 0, seen: 0, counts }
    }

    /// What was counted.
    pub fn counts(&self) -> &ReuseCounts {
        &self.counts
    }

    /// Uses `number`; tells its distance, none at its first use.
    pub fn ask(&mut self, number: usize) -> Option<usize> {
        if self.now + 1 == self.tree.len() {
            self.renumber();
        }
        let before = std::mem::take(&mut self.last[number]);
        let distance = (before > 0).then(|| self.seen - self.sum(before));
        match distance {
            Some(_) => self.add(before, false),
            None => self.seen += 1,
        }
        self.now += 1;
        self.last[number] = self.now;
        self.add(self.now, true);
        let bin = |distance: usize| distance * BINS / self.last.len().max(1);
        match distance {
            Some(distance) => self.counts.found[bin(distance)] += 1.0,
            None => self.counts.first[bin(self.seen - 1)] += 1.0,
        }
        self.counts.fade();
        distance
    }

    /// Times from 1 on again, in their order.
    fn renumber(&mut self) {
        let mut order: Vec<usize> = (0..self.last.len()).filter(|n| self.last[*n] > 0).collect();
        order.sort_unstable_by_key(|n| self.last[*n]);
        self.tree.fill(0);
        self.now = order.len();
        for (i, number) in order.into_iter().enumerate() {
            self.last[number] = i + 1;
            self.add(i + 1, true);
        }
    }

    fn add(&mut self, mut time: usize, up: bool) {
        while time < self.tree.len() {
            self.tree[time] = if up { self.tree[time] + 1 } else { self.tree[time] - 1 };
            time += time & time.wrapping_neg();
        }
    }

    /// Numbers that were last used at `time` or before.
    fn sum(&self, mut time: usize) -> usize {
        let mut sum = 0;
        while time > 0 {
            sum += self.tree[time] as usize;
            time &= time - 1;
        }
        sum
    }
}

impl ReuseCounts {
    /// Share of uses that a cache finds which holds this share of all experts by recent use; none where nothing was counted.
    ///
    /// A first use is known to have no shorter distance than what had been used before. Such counts are censored; leaving
    /// them out would make short runs look as if all were used again soon, so the share is the estimate of Kaplan and Meier
    /// (1958).
    pub fn found_within(&self, share: f64) -> Option<f64> {
        let sum = |of: &[f32]| of.iter().map(|n| f64::from(*n)).sum::<f64>();
        if sum(&self.found) < 1.0 {
            return None;
        }
        let (mut rest, mut missed) = (sum(&self.found) + sum(&self.first), 1.0);
        let bins = share.clamp(0.0, 1.0) * BINS as f64;
        for (bin, (found, first)) in self.found.iter().zip(&self.first).enumerate() {
            let (found, first) = (f64::from(*found), f64::from(*first));
            let part = (bins - bin as f64).clamp(0.0, 1.0);
            // Censored ones leave somewhere in their bin.
            let able = rest - first / 2.0;
            if part == 0.0 || able <= 0.0 {
                break;
            }
            missed *= 1.0 - part * (found / able).min(1.0);
            rest -= found + first;
        }
        Some(1.0 - missed)
    }

    fn fade(&mut self) {
        let all: f32 = self.found.iter().chain(&self.first).sum();
        if all > MEMORY {
            self.found.iter_mut().chain(&mut self.first).for_each(|n| *n /= 2.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lru::LruTwin;

    fn random(seed: &mut u64, n: usize) -> usize {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*seed >> 33) as usize % n
    }

    #[test]
    fn a_cache_by_recent_use_finds_what_has_a_shorter_distance() {
        let (mut seed, mut reuse) = (1, ReuseDistances::new(20, ReuseCounts::default()));
        let mut twins: Vec<LruTwin> = (1..=20).map(|slots| LruTwin::new(slots, 20)).collect();
        for _ in 0..2000 {
            let most = 1 + random(&mut seed, 20);
            let number = random(&mut seed, most);
            let distance = reuse.ask(number);
            for (i, twin) in twins.iter_mut().enumerate() {
                assert_eq!(twin.ask(number), distance.is_some_and(|d| d < i + 1), "{distance:?}");
            }
        }
    }

    #[test]
    fn short_runs_do_not_look_as_if_all_were_used_again_soon() {
        // Uniform use of 640: a cache of a part finds that part. The run is too short to use all of them.
        let (mut seed, mut reuse) = (3, ReuseDistances::new(640, ReuseCounts::default()));
        for _ in 0..900 {
            reuse.ask(random(&mut seed, 640));
        }
        for share in [0.1, 0.3, 0.5] {
            let found = reuse.counts().found_within(share).expect("counted");
            assert!((found - share).abs() < 0.05, "{found} for {share}");
        }
        assert_eq!(ReuseCounts::default().found_within(0.5), None);
    }
}
