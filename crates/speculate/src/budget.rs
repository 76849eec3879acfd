//! How many guesses are worth their rows: measured acceptance against measured cost of a step.
//!
//! A guess that is right with probability P brings P tokens and costs a row. Of all guesses that were made, those with
//! the highest P get rows as long as tokens per second rise. Then branches do: what they bring are the guesses that no
//! earlier chain has, and they cost the rows of all others, too. So they pay where rows are nearly free.

/// Speed that drafts must promise beside a step without, and branches beside one without them.
const LEAST_GAIN: f64 = 1.02;
/// Guesses that are less likely never get a row.
const LEAST_CHANCE: f32 = 0.05;
/// Most drafts of a chain in a step whose width follows measurement.
pub const MOST_TUNED: usize = 16;

/// The chains of one sequence in a step, and how likely each of their guesses is to be kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bid {
    /// Of the first chain.
    pub chances: Vec<f32>,
    /// It is tried with one draft although it may not pay.
    pub due: bool,
    /// Further chains.
    pub branches: Vec<BranchBid>,
    /// Rows before the drafts, which each chain needs.
    pub rows: usize,
}

/// A further chain of a sequence.
#[derive(Clone, Debug)]
pub(crate) struct BranchBid {
    pub chances: Vec<f32>,
    /// Guesses at its beginning that the first chain has, too.
    pub shared: usize,
}

/// What a sequence gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Portion {
    /// Drafts of its first chain.
    pub width: usize,
    /// Further chains by their index, and how many drafts of each.
    pub branches: Vec<(usize, usize)>,
}

/// What a step may spend on drafts.
#[derive(Clone, Copy)]
pub struct DraftBudget<'a> {
    /// Seconds that a step of so many rows is expected to take.
    pub seconds: &'a dyn Fn(usize) -> f64,
    /// Rows that the step has without drafts.
    pub rows: usize,
    /// Sequences that get a token from it.
    pub answers: usize,
    /// Rows that are left.
    pub room: usize,
    /// What wrong guesses cost.
    pub rejected: Rejected,
}

/// What becomes of a step in which a guess was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Cached keys and values behind it are written over.
    Overwritten,
    /// A recurrent state is put back: the row before the guesses and those that were right are computed again.
    Recomputed,
}

impl Rejected {
    /// Rows that guess `k` of a chain (0: the first) is expected to cost. Chains end at it with probability
    /// `chances[k - 1] - chances[k]`, and then `k + 1` rows are computed again.
    fn rows(self, chances: &[f32], k: usize) -> f64 {
        let before = k.checked_sub(1).map_or(1.0, |i| chances[i]);
        match self {
            Rejected::Overwritten => 1.0,
            Rejected::Recomputed => 1.0 + (k + 1) as f64 * f64::from((before - chances[k]).max(0.0)),
        }
    }
}

/// A guess that may get a row.
#[derive(Clone, Copy)]
struct PricedGuess {
    chance: f32,
    /// Index of its bid.
    bid: usize,
    /// Rows that it is expected to cost.
    rows: f64,
}

/// Tokens that a step is expected to bring, and rows that were given out for them.
#[derive(Clone, Copy)]
struct Yield {
    tokens: f64,
    /// Those that are expected to be computed again among them.
    rows: f64,
    /// As they are.
    taken: usize,
}

impl DraftBudget<'_> {
    /// Of a step with `rows` more.
    fn seconds(&self, rows: f64) -> f64 {
        let with = |more: usize| (self.seconds)(self.rows + more);
        let (whole, part) = (rows as usize, rows.fract());
        if part > 0.0 { with(whole) * (1.0 - part) + with(whole + 1) * part } else { with(whole) }
    }

    fn speed(&self, y: Yield) -> f64 {
        y.tokens / self.seconds(y.rows)
    }

    /// What each bid gets: the most likely guesses come first, as many as bring the most tokens per second.
    pub(crate) fn divide(&self, bids: &[Bid]) -> Vec<Portion> {
        let mut portions = vec![Portion::default(); bids.len()];
        let of_bid = |(i, b): (usize, &Bid)| {
            let guess =
                |(k, &chance)| PricedGuess { chance, bid: i, rows: self.rejected.rows(&b.chances, k) };
            b.chances.iter().take(MOST_TUNED).enumerate().map(guess).collect::<Vec<_>>()
        };
        let mut guesses: Vec<PricedGuess> = bids.iter().enumerate().flat_map(of_bid).collect();
        guesses.retain(|guess| guess.chance >= LEAST_CHANCE);
        // Stable, and chances fall along a chain: its guesses stay in turn.
        guesses.sort_by(|a, b| b.chance.total_cmp(&a.chance));
        guesses.truncate(self.room);
        let mut y = self.best(&guesses);
        guesses[..y.taken].iter().for_each(|guess| portions[guess.bid].width += 1);
        self.branch_out(bids, &mut portions, &mut y);
        let waits = |(p, b): &(&mut Portion, &Bid)| p.width == 0 && b.due && !b.chances.is_empty();
        let due = portions.iter_mut().zip(bids).filter(waits);
        due.take(self.room - y.taken).for_each(|(p, _)| p.width = 1);
        portions
    }

    /// The guesses, in their order, that bring the most tokens per second; none where that is hardly more than without.
    fn best(&self, guesses: &[PricedGuess]) -> Yield {
        let mut y = Yield { tokens: self.answers as f64, rows: 0.0, taken: 0 };
        if guesses.is_empty() {
            return y;
        }
        let (mut best, mut speed) = (y, LEAST_GAIN * self.speed(y));
        for guess in guesses {
            y.tokens += f64::from(guess.chance);
            (y.rows, y.taken) = (y.rows + guess.rows, y.taken + 1);
            let with = self.speed(y);
            if with > speed {
                (best, speed) = (y, with);
            }
        }
        best
    }

    /// Adds branches to the chains that have rows: those whose own guesses are the likeliest come first, each as long as
    /// brings the most tokens per second.
    fn branch_out(&self, bids: &[Bid], portions: &mut [Portion], y: &mut Yield) {
        let own = |b: &BranchBid| b.chances.get(b.shared).copied().unwrap_or(0.0);
        let mut all: Vec<_> = (bids.iter().enumerate())
            .filter(|(i, _)| portions[*i].width > 0)
            .flat_map(|(i, bid)| bid.branches.iter().enumerate().map(move |(k, b)| (own(b), i, k)))
            .filter(|(chance, ..)| *chance >= LEAST_CHANCE)
            .collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, i, k) in all {
            let (bid, branch) = (&bids[i], &bids[i].branches[k]);
            let with = |len: usize| {
                let brings: f32 = branch.chances[branch.shared..len].iter().sum();
                let rows: f64 = (0..len).map(|k| self.rejected.rows(&branch.chances, k)).sum();
                Yield {
                    tokens: y.tokens + f64::from(brings),
                    rows: y.rows + bid.rows as f64 + rows,
                    taken: y.taken + bid.rows + len,
                }
            };
            let lengths = branch.shared + 1..=branch.chances.len().min(MOST_TUNED);
            let fits = lengths.map(|len| (len, with(len))).filter(|(_, with)| with.taken <= self.room);
            let best = fits.max_by(|a, b| self.speed(a.1).total_cmp(&self.speed(b.1)));
            if let Some((len, with)) =
                best.filter(|(_, with)| self.speed(*with) > LEAST_GAIN * self.speed(*y))
            {
                portions[i].branches.push((k, len));
                *y = with;
            }
        }
    }

    /// How many guesses of each of `askers` sequences pay, where a guess is right with probability `chance` and each
    /// depth takes `seconds` of the drafter.
    pub(crate) fn depth(&self, askers: usize, chance: f32, seconds: f64) -> usize {
        let most = (self.room / askers.max(1)).min(MOST_TUNED);
        let chances: Vec<f32> = (1..=most).map(|k| chance.powi(k as i32)).collect();
        let (mut tokens, mut rows) = (self.answers as f64, 0.0);
        let (mut best, mut take) = (LEAST_GAIN * tokens / self.seconds(0.0), 0);
        for k in 1..=most {
            if chances[k - 1] < LEAST_CHANCE {
                break;
            }
            tokens += f64::from(chances[k - 1]) * askers as f64;
            rows += self.rejected.rows(&chances, k - 1) * askers as f64;
            let speed = tokens / (self.seconds(rows) + k as f64 * seconds);
            if speed > best {
                (best, take) = (speed, k);
            }
        }
        take
    }
}

/// Budgets of a made cost.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Seconds of steps in which each row behind the first costs `more` of the first one.
    pub fn cost(more: f64) -> impl Fn(usize) -> f64 {
        move |rows| 1.0 + more * (rows as f64 - 1.0)
    }

    pub fn budget(seconds: &dyn Fn(usize) -> f64, answers: usize, room: usize) -> DraftBudget<'_> {
        DraftBudget { seconds, rows: answers, answers, room, rejected: Rejected::Overwritten }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        testing::{budget, cost},
        *,
    };
    use proptest::prelude::*;

    fn bid(chance: f32, len: usize) -> Bid {
        Bid { chances: (1..=len).map(|i| chance.powi(i as i32)).collect(), rows: 1, ..Bid::default() }
    }

    fn widths(budget: DraftBudget<'_>, bids: &[Bid]) -> Vec<usize> {
        budget.divide(bids).iter().map(|p| p.width).collect()
    }

    #[test]
    fn rows_go_to_the_likely_and_only_while_they_pay() {
        let cheap = cost(0.1);
        let got = widths(budget(&cheap, 2, 16), &[bid(0.9, 8), bid(0.3, 8)]);
        assert!(got[0] >= 6 && got[1] <= 2, "{got:?}");
        let dear = cost(1.0);
        assert_eq!(widths(budget(&dear, 2, 16), &[bid(0.9, 8), bid(0.3, 8)]), [0, 0]);
        assert_eq!(widths(budget(&cheap, 2, 3), &[bid(0.9, 8), bid(0.9, 8)]).iter().sum::<usize>(), 3);
        assert_eq!(widths(budget(&cheap, 2, 0), &[bid(0.9, 8), bid(0.9, 8)]), [0, 0]);
    }

    #[test]
    fn branches_come_where_rows_are_nearly_free() {
        let branched = |chance: f32, room, more| {
            let branches = vec![BranchBid { chances: vec![chance, chance * 0.5], shared: 0 }];
            let cost = cost(more);
            budget(&cost, 1, room).divide(&[Bid { branches, ..bid(0.5, 4) }]).remove(0).branches
        };
        assert_eq!(branched(0.4, 24, 0.001), [(0, 2)]);
        assert_eq!(branched(0.4, 24, 0.14), [], "two cores");
        assert_eq!(branched(0.02, 24, 0.0), [], "it is hardly ever right");
        assert_eq!(branched(0.4, 5, 0.0), [], "there is no room beside the first chain");
        assert_eq!(branched(0.4, 6, 0.0), [(0, 1)]);
    }

    #[test]
    fn what_a_branch_shares_brings_nothing() {
        let cost = cost(0.01);
        let branch = |shared| vec![BranchBid { chances: vec![0.6, 0.05], shared }];
        let of = |shared| {
            let bid = Bid { branches: branch(shared), ..bid(0.6, 4) };
            budget(&cost, 1, 24).divide(&[bid]).remove(0).branches
        };
        assert_eq!((of(0).len(), of(1)), (1, vec![]));
    }

    #[test]
    fn rows_that_are_computed_again_are_those_of_a_chain_that_is_cut() {
        // Simulated: chains of four guesses, each right with probability 0.8; a cut at guess k costs k + 1 rows.
        let chances: Vec<f32> = (1..=4).map(|k| 0.8f32.powi(k)).collect();
        let all: f64 = (0..4).map(|k| Rejected::Recomputed.rows(&chances, k)).sum();
        let cut: f64 = (0..4).map(|k| 0.2 * 0.8f64.powi(k) * f64::from(k + 1)).sum();
        assert!((all - 4.0 - cut).abs() < 1e-5, "{all} {cut}");
        // A wrong guess costs its row and the one before it.
        assert_eq!(Rejected::Recomputed.rows(&[0.0], 0), 2.0);
        assert_eq!(Rejected::Recomputed.rows(&[1.0, 1.0], 1), 1.0);
        let some = cost(0.2);
        let width = |rejected| widths(DraftBudget { rejected, ..budget(&some, 1, 16) }, &[bid(0.8, 8)])[0];
        let (free, again) = (width(Rejected::Overwritten), width(Rejected::Recomputed));
        assert!(again > 0 && again < free, "{again} {free}");
    }

    #[test]
    fn what_is_due_gets_one_draft() {
        let dear = cost(1.0);
        let due = |len| Bid { due: true, ..bid(0.2, len) };
        assert_eq!(widths(budget(&dear, 2, 16), &[due(8), due(0), bid(0.2, 8)]), [1, 0, 0]);
        assert_eq!(widths(budget(&dear, 2, 0), &[due(8)]), [0]);
    }

    #[test]
    fn depth_follows_acceptance_and_what_the_drafter_costs() {
        let cheap = cost(0.1);
        let budget = budget(&cheap, 1, 16);
        assert!(budget.depth(1, 0.8, 0.05) > budget.depth(1, 0.5, 0.05));
        assert!(budget.depth(1, 0.8, 0.05) > budget.depth(1, 0.8, 0.3));
        assert_eq!(budget.depth(1, 0.3, 0.5), 0);
        assert_eq!(budget.depth(20, 0.9, 0.0), 0, "there is no room");
    }

    proptest! {
        #[test]
        fn room_and_chains_are_kept(
            bids in prop::collection::vec((0.0f32..1.0, 0usize..20, any::<bool>(), 0usize..4), 0..9),
            room in 0usize..40, more in 0.0f64..1.0,
        ) {
            let cost = cost(more);
            let branch = |c, len, k: usize| BranchBid { chances: bid(c, len).chances, shared: k.min(len) };
            let with = |&(c, len, due, n)| {
                Bid { due, branches: (0..n).map(|k| branch(c, len, k)).collect(), ..bid(c, len) }
            };
            let bids: Vec<Bid> = bids.iter().map(with).collect();
            let portions = budget(&cost, bids.len().max(1), room).divide(&bids);
            let of_branches = |p: &Portion| p.branches.iter().map(|(_, len)| 1 + len).sum::<usize>();
            prop_assert!(portions.iter().map(|p| p.width + of_branches(p)).sum::<usize>() <= room);
            prop_assert!(portions.iter().zip(&bids).all(|(p, b)| p.width <= b.chances.len().min(MOST_TUNED)));
            let own = |p: &Portion, b: &Bid| p.branches.iter().all(|&(k, len)| len > b.branches[k].shared && len <= 16);
            prop_assert!(portions.iter().zip(&bids).all(|(p, b)| own(p, b)));
        }
    }
}
