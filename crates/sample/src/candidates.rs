//! The tokens that may still be chosen, from the whole row of logits down to a short sorted list.
//!
//! The row is not copied into a list before a sampler needs the list: top-k and min-p, which come first in most requests,
//! read the row itself and write only what they keep. Wherever two logits are equal the lower id comes first, so no
//! result depends on how a sort treats equal keys.

use std::cmp::Ordering;

use super::candidate::Candidate;
use super::look::{ChoiceLooks, of_list};
use super::peak::{BLOCK, Peak, block_max};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Every token of the row that is not masked; `items` is not filled.
    Row,
    /// `items`, in some fixed order.
    List,
    /// `items`, in order of rank.
    Sorted,
}

/// See the module's text. Holds at least one candidate, all of them with finite logits.
#[derive(Debug)]
pub(super) struct Candidates<'a> {
    row: &'a [f32],
    peak: Peak,
    items: &'a mut Vec<Candidate>,
    state: State,
    min_keep: usize,
}

impl<'a> Candidates<'a> {
    /// `peak`: of this row, with a finite logit; `items`: a buffer to reuse; `min_keep`: candidates that every cut leaves.
    pub fn new(row: &'a [f32], peak: Peak, items: &'a mut Vec<Candidate>, min_keep: usize) -> Self {
        Self { row, peak, items, state: State::Row, min_keep: min_keep.max(1) }
    }

    /// The front of a row's ranking, in order of rank, where no stage looks behind it. At least one logit is finite.
    pub fn of_front(front: &[(u32, f32)], items: &'a mut Vec<Candidate>, min_keep: usize) -> Self {
        items.clear();
        let finite = front.iter().filter(|(_, logit)| logit.is_finite());
        items.extend(finite.map(|&(id, logit)| Candidate { id, logit, p: 0.0 }));
        let peak = items
            .first()
            .map_or(Peak { id: 0, logit: f32::NEG_INFINITY }, |c| Peak { id: c.id, logit: c.logit });
        Self { row: &[], peak, items, state: State::Sorted, min_keep: min_keep.max(1) }
    }

    /// Notes what is left, and changes nothing.
    pub fn look(&self, name: &'static str, looks: &mut ChoiceLooks) {
        match self.state {
            State::Row => _ = looks.note_row(name, self.row),
            State::List | State::Sorted => looks.note(name, of_list(self.items)),
        }
    }

    /// The candidate that ranks first.
    pub fn best(&self) -> u32 {
        match self.state {
            State::Row => self.peak.id,
            _ => self.items.iter().min_by(|a, b| a.rank(b)).map_or(self.peak.id, |c| c.id),
        }
    }

    /// The highest logit.
    pub fn max_logit(&self) -> f32 {
        match self.state {
            State::Row => self.peak.logit,
            State::List => self.items.iter().map(|c| c.logit).fold(f32::NEG_INFINITY, f32::max),
            State::Sorted => self.items.first().map_or(f32::NEG_INFINITY, |c| c.logit),
        }
    }

    /// All candidates.
    pub fn list(&mut self) -> &[Candidate] {
        if self.state == State::Row {
            fill(self.items, self.row, f32::MIN);
            self.state = State::List;
        }
        self.items
    }

    /// All candidates in order of rank.
    pub fn sort(&mut self) -> &[Candidate] {
        self.list();
        if self.state != State::Sorted {
            self.items.sort_unstable_by(Candidate::rank);
            self.state = State::Sorted;
        }
        self.items
    }

    /// The `n` that rank first, in order of rank. The rest is left in no order: cut next.
    pub fn front(&mut self, n: usize) -> &[Candidate] {
        match self.state {
            State::Row => select_from_row(self.items, self.row, n),
            State::List if n < self.items.len() => {
                self.items.select_nth_unstable_by(n, Candidate::rank);
                self.items[..n].sort_unstable_by(Candidate::rank);
            }
            State::List => sort_front(self.items, n),
            State::Sorted => {}
        }
        &self.items[..n.min(self.items.len())]
    }

    /// Fills in the probabilities.
    pub fn softmax(&mut self) -> &[Candidate] {
        self.list();
        let max = self.max_logit();
        let mut sum = 0.0f64;
        for c in self.items.iter_mut() {
            c.p = (c.logit - max).exp();
            sum += f64::from(c.p);
        }
        let scale = (1.0 / sum) as f32;
        self.items.iter_mut().for_each(|c| c.p *= scale);
        self.items
    }

    /// Keeps the `k` that rank first, sorted; never fewer than `min_keep`.
    pub fn keep_top(&mut self, k: usize) {
        self.keep_first(k.max(self.min_keep));
    }

    /// Keeps the one that ranks first, whatever `min_keep` says.
    pub fn keep_best(&mut self) {
        self.keep_first(1);
    }

    fn keep_first(&mut self, k: usize) {
        match self.state {
            State::Row => select_from_row(self.items, self.row, k),
            State::List => sort_front(self.items, k),
            State::Sorted => self.items.truncate(k),
        }
        self.state = State::Sorted;
    }

    /// Keeps the logits that are at least `cut`; where these are fewer than `min_keep`, the `min_keep` that rank first.
    pub fn keep_above(&mut self, cut: f32) {
        if self.count_above(cut) < self.min_keep {
            return self.keep_top(self.min_keep);
        }
        match self.state {
            State::Row => {
                fill(self.items, self.row, cut.max(f32::MIN));
                self.state = State::List;
            }
            State::List | State::Sorted => self.items.retain(|c| c.logit >= cut),
        }
    }

    fn count_above(&self, cut: f32) -> usize {
        // One is always above: every caller's cut is at most the highest logit.
        if self.min_keep == 1 {
            return usize::from(self.max_logit() >= cut);
        }
        match self.state {
            State::Row => self.row.iter().filter(|&&x| x >= cut.max(f32::MIN)).count(),
            _ => self.items.iter().filter(|c| c.logit >= cut).count(),
        }
    }

    /// Keeps the front of the ranking up to the candidate with which `mass` of the probability is reached.
    pub fn keep_mass(&mut self, mass: f32) {
        self.softmax();
        let mut enough = reaches(mass, self.min_keep);
        let kept = sort_until(self.items, Candidate::rank, |c| enough(c.p));
        self.items.truncate(kept);
        self.state = State::Sorted;
    }

    /// Keeps the candidates in the order of `scores` (score, index into [`Self::list`]) up to the one with which `mass`
    /// of the probability is reached. Lowest score first, then the candidate that ranks first.
    pub fn keep_mass_by(&mut self, scores: &mut [(f32, u32)], mass: f32) {
        let items = &mut *self.items;
        let order = |a: &(f32, u32), b: &(f32, u32)| {
            a.0.total_cmp(&b.0).then_with(|| items[a.1 as usize].rank(&items[b.1 as usize]))
        };
        let mut enough = reaches(mass, self.min_keep);
        let kept = sort_until(scores, order, |s| enough(items[s.1 as usize].p));
        // In order of index, each kept candidate moves towards the front, over ones that were dropped or moved.
        scores[..kept].sort_unstable_by_key(|s| s.1);
        for (to, &(_, from)) in scores[..kept].iter().enumerate() {
            items[to] = items[from as usize];
        }
        items.truncate(kept);
    }

    /// Drops the `n` that rank first, unless fewer than `min_keep` would be left. The candidates must be sorted.
    pub fn drop_front(&mut self, n: usize) {
        if self.items.len().saturating_sub(n) >= self.min_keep {
            self.items.drain(..n);
        }
    }

    /// Divides the logits by `temperature` > 0. Measured from the highest, which becomes 0: nothing overflows upwards.
    pub fn scale(&mut self, temperature: f32) {
        self.list();
        let max = self.max_logit();
        for c in self.items.iter_mut() {
            c.logit = ((c.logit - max) / temperature).max(f32::MIN);
        }
    }

    /// The candidate at `u` in [0, 1) of the cumulated probabilities; those with probability 0 are never met.
    pub fn at(&mut self, u: f64) -> Candidate {
        self.softmax();
        let total: f64 = self.items.iter().map(|c| f64::from(c.p)).sum();
        let mut before = 0.0;
        let reached = |c: &&Candidate| {
            before += f64::from(c.p);
            before > u * total
        };
        let found = self.items.iter().find(reached).or_else(|| self.items.iter().rfind(|c| c.p > 0.0));
        found.copied().unwrap_or(Candidate { id: self.peak.id, logit: self.peak.logit, p: 1.0 })
    }
}

/// Says for one probability after another whether `mass` is reached with it and at least `min_keep` were taken.
fn reaches(mass: f32, min_keep: usize) -> impl FnMut(f32) -> bool {
    let (mut sum, mut taken) = (0.0f64, 0);
    move |p| {
        sum += f64::from(p);
        taken += 1;
        sum >= f64::from(mass) && taken >= min_keep
    }
}

fn fill(items: &mut Vec<Candidate>, row: &[f32], cut: f32) {
    items.clear();
    let all = row.iter().enumerate().filter(|&(_, &logit)| logit >= cut);
    items.extend(all.map(|(id, &logit)| Candidate { id: id as u32, logit, p: 0.0 }));
}

/// Keeps and sorts the `k` that rank first.
fn sort_front(items: &mut Vec<Candidate>, k: usize) {
    if k < items.len() {
        items.select_nth_unstable_by(k - 1, Candidate::rank);
        items.truncate(k);
    }
    items.sort_unstable_by(Candidate::rank);
}

/// The `k` of the row that rank first, sorted. One pass with a rising bar: `items` gathers logits above the bar, and
/// each time it holds `2k` the lower half goes and the bar rises to the lowest that stays. Ids rise along the row, so a
/// logit equal to the bar ranks behind the `k` already there.
fn select_from_row(items: &mut Vec<Candidate>, row: &[f32], k: usize) {
    items.clear();
    let room = k.max(BLOCK).saturating_mul(2);
    let mut bar = f32::NEG_INFINITY;
    for (i, block) in row.chunks(BLOCK).enumerate() {
        if block_max(block) <= bar {
            continue;
        }
        for (j, &logit) in block.iter().enumerate().filter(|&(_, &x)| x > bar) {
            items.push(Candidate { id: (i * BLOCK + j) as u32, logit, p: 0.0 });
        }
        if items.len() >= room {
            items.select_nth_unstable_by(k - 1, Candidate::rank);
            items.truncate(k);
            bar = items[k - 1].logit;
        }
    }
    sort_front(items, k);
}

/// Sorts only as much of the front as it takes until `enough` says so of an item; returns how many were taken, all if it
/// never does. The whole of 150,000 is seldom worth sorting for the few hundred that hold the mass.
fn sort_until<T>(
    items: &mut [T],
    order: impl Fn(&T, &T) -> Ordering,
    mut enough: impl FnMut(&T) -> bool,
) -> usize {
    let (mut sorted, mut step) = (0, 1024);
    while sorted < items.len() {
        let rest = &mut items[sorted..];
        let n = step.min(rest.len());
        if n < rest.len() {
            rest.select_nth_unstable_by(n - 1, &order);
        }
        rest[..n].sort_unstable_by(&order);
        if let Some(i) = rest[..n].iter().position(&mut enough) {
            return sorted + i + 1;
        }
        sorted += n;
        step *= 8;
    }
    items.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{row, with};
    use proptest::prelude::*;

    fn ranked(row: &[f32]) -> Vec<(u32, f32)> {
        let mut all: Vec<_> =
            row.iter().enumerate().map(|(i, &x)| (i as u32, x)).filter(|c| c.1.is_finite()).collect();
        all.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
        all
    }

    fn pairs(items: &[Candidate]) -> Vec<(u32, f32)> {
        items.iter().map(|c| (c.id, c.logit)).collect()
    }

    proptest! {
        #[test]
        fn top_k_of_row_and_of_list_equal_the_full_sort(row in row(1..2000), k in 1usize..500) {
            let want: Vec<_> = ranked(&row).into_iter().take(k).collect();
            with(&row, 0, |c| { c.keep_top(k); assert_eq!(pairs(c.list()), want) });
            with(&row, 0, |c| { c.list(); c.keep_top(k); assert_eq!(pairs(c.list()), want) });
            with(&row, 0, |c| { c.sort(); c.keep_top(k); assert_eq!(pairs(c.list()), want) });
        }

        #[test]
        fn the_front_is_that_of_the_full_sort(row in row(1..2000), n in 1usize..500, k in 1usize..500) {
            let all = ranked(&row);
            let check = |c: &mut Candidates| {
                assert_eq!(pairs(c.front(n)), &all[..n.min(all.len())]);
                c.keep_top(k);
                assert_eq!(pairs(c.list()), &all[..k.min(all.len())]);
            };
            with(&row, 0, check);
            with(&row, 0, |c| { c.list(); check(c) });
            with(&row, 0, |c| { c.sort(); check(c) });
        }

        #[test]
        fn a_cut_leaves_what_is_above_it_or_min_keep(row in row(1..300), below in 0f32..20.0, min_keep in 0usize..9) {
            let all = ranked(&row);
            let cut = all[0].1 - below;
            let above = all.iter().filter(|c| c.1 >= cut).count();
            let want: Vec<_> = all.iter().copied().take(above.max(min_keep)).collect();
            let check = |c: &mut Candidates| { c.keep_above(cut); assert_eq!(pairs(c.sort()), want) };
            with(&row, min_keep, check);
            with(&row, min_keep, |c| { c.list(); check(c) });
            with(&row, min_keep, |c| { c.sort(); check(c) });
        }

        #[test]
        fn sorting_until_enough_equals_sorting_all(mut items in prop::collection::vec(0u32..50, 0..2000), limit in 0u64..60_000) {
            let mut all = items.clone();
            all.sort_unstable();
            let mut sum = 0;
            let want = all.iter().position(|&x| { sum += u64::from(x); sum >= limit }).map_or(all.len(), |i| i + 1);
            sum = 0;
            let got = sort_until(&mut items, u32::cmp, |&x| { sum += u64::from(x); sum >= limit });
            prop_assert_eq!(got, want);
            prop_assert_eq!(&items[..got], &all[..got]);
        }

        #[test]
        fn softmax_sums_to_one(row in row(1..300)) {
            with(&row, 0, |c| {
                let sum: f64 = c.softmax().iter().map(|c| f64::from(c.p)).sum();
                // 300 roundings of f32 at most, each below 6e-8.
                assert!((sum - 1.0).abs() < 2e-5, "{sum}");
            });
        }
    }

    #[test]
    fn minus_zero_ties_with_zero() {
        with(&[-1.0, -0.0, 0.0], 0, |c| assert_eq!(pairs(c.sort())[0].0, 1));
    }

    #[test]
    fn the_ends_of_the_unit_interval_meet_the_first_and_the_last() {
        let at = |u| with(&[0.0, f32::NEG_INFINITY, 0.0, -1e30], 0, |c| c.at(u).id);
        assert_eq!(at(0.0), 0);
        assert_eq!(at(0.499_999), 0);
        assert_eq!(at(0.5), 2);
        assert_eq!(at(1.0 - f64::EPSILON / 2.0), 2, "a token without probability is not drawn");
    }
}
