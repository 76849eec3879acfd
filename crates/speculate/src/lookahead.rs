//! Lookahead decoding (Fu et al., arXiv 2402.02057) without rows of its own: what the model said behind wrong guesses is
//! guessed where it may be right.
//!
//! A step that verifies guesses computes rows behind the first wrong one, too. What those say is the next iteration of
//! a Jacobi solver: it is guessed in the following step. Their pairs of tokens with what came behind them go into a
//! pool, in which later ends of the text are looked up. Where a pair went on in several ways, the others are branches.

use crate::{
    draft::{Guesses, MOST_BRANCHES, Proposal},
    drafter::{DraftAsk, Drafter},
    error::Result,
};
use std::collections::{HashMap, VecDeque};

/// Entries of the pool, over all sequences: the oldest goes first.
const POOL: usize = 1 << 16;
/// Signs of guesses: from the pool, from the last iteration, and the pool's next choices, with one for each of the first
/// depths or choices.
const DEPTHS: u8 = 4;

/// No vocabulary has it.
const NO_TOKEN: u32 = u32::MAX;

/// Tokens that came behind a pair, the latest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PairEnds([u32; MOST_BRANCHES]);

/// Guesses what the model said in rows that were computed for nothing.
#[derive(Default)]
pub struct Lookahead {
    pool: HashMap<[u32; 2], PairEnds>,
    /// Keys of the pool in the order in which they came.
    order: VecDeque<[u32; 2]>,
    /// What the model said last behind a wrong guess, by sequence.
    trajectories: HashMap<u64, Vec<u32>>,
}

impl PairEnds {
    fn insert(&mut self, token: u32) {
        let at = self.0.iter().position(|&t| t == token).unwrap_or(MOST_BRANCHES - 1);
        self.0[..=at].rotate_right(1);
        self.0[0] = token;
    }

    /// The token that came before `k` others, if so many came.
    fn get(&self, k: usize) -> Option<u32> {
        self.0.get(k).copied().filter(|&t| t != NO_TOKEN)
    }
}

impl Lookahead {
    fn insert(&mut self, key: [u32; 2], next: u32) {
        if let Some(ends) = self.pool.get_mut(&key) {
            return ends.insert(next);
        }
        let mut ends = PairEnds([NO_TOKEN; MOST_BRANCHES]);
        ends.insert(next);
        self.pool.insert(key, ends);
        self.order.push_back(key);
        if self.order.len() > POOL
            && let Some(oldest) = self.order.pop_front()
        {
            self.pool.remove(&oldest);
        }
    }

    /// What the pool has behind the end of a text, again and again, from its choice `k` on.
    fn chain(&self, tokens: &[u32], most: usize, k: usize) -> Guesses {
        let mut guesses = Guesses::default();
        let &[.., before, last] = tokens else { return guesses };
        let (mut end, mut choice) = ([before, last], k);
        while guesses.tokens.len() < most
            && let Some(next) = self.pool.get(&end).and_then(|ends| ends.get(choice))
        {
            let depth = (guesses.tokens.len() as u8).min(DEPTHS - 1);
            guesses.push(next, if choice > 0 { 2 * DEPTHS + choice as u8 } else { depth });
            (end, choice) = ([end[1], next], 0);
        }
        guesses
    }

    /// What the model said last behind a wrong guess.
    fn trajectory(&self, ask: &DraftAsk<'_>) -> Guesses {
        let mut guesses = Guesses::default();
        let said = self.trajectories.get(&ask.id).into_iter().flatten().take(ask.most);
        said.zip(DEPTHS..).for_each(|(&token, sign)| guesses.push(token, sign.min(2 * DEPTHS - 1)));
        guesses
    }
}

impl Drafter for Lookahead {
    fn name(&self) -> &'static str {
        "lookahead"
    }

    fn prior(&self, sign: u8) -> f32 {
        if sign < DEPTHS { 0.4 } else { 0.2 }
    }

    fn propose(&mut self, asks: &[DraftAsk<'_>]) -> Result<Vec<Proposal>> {
        let one = |ask: &DraftAsk<'_>| {
            let known = if ask.shared { ask.branches } else { 0 };
            let mut chains: Proposal = (0..known)
                .map(|k| self.chain(ask.tokens, ask.most, k))
                .take_while(|chain| !chain.tokens.is_empty())
                .collect();
            if chains.len() < ask.branches {
                chains.extend(self.trajectory(ask).alone());
            }
            chains
        };
        Ok(asks.iter().map(one).collect())
    }

    fn listens(&self) -> bool {
        true
    }

    fn said(&mut self, ask: &DraftAsk<'_>, drafts: &[u32], said: &[u32], accepted: usize) {
        // The row of the first wrong guess, and those behind it.
        let behind = (accepted + 1).min(said.len());
        self.trajectories.insert(ask.id, said[behind..].to_vec());
        if !ask.shared {
            return;
        }
        let pairs = drafts.windows(2).zip(&said[2.min(said.len())..]).skip(accepted);
        for (pair, &next) in pairs {
            self.insert([pair[0], pair[1]], next);
        }
    }

    fn forget(&mut self, ask: &DraftAsk<'_>) {
        self.trajectories.remove(&ask.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(tokens: &[u32], shared: bool) -> DraftAsk<'_> {
        DraftAsk { id: 3, tokens, prompt_len: 1, shared, most: 4, branches: 1, edits: Default::default() }
    }

    fn guesses(lookahead: &mut Lookahead, tokens: &[u32], shared: bool) -> Vec<u32> {
        let chains = lookahead.propose(&[ask(tokens, shared)]).expect("guesses").swap_remove(0);
        chains.into_iter().next().unwrap_or_default().tokens
    }

    #[test]
    fn what_was_said_behind_a_wrong_guess_is_guessed_next_and_kept_for_later() {
        let mut l = Lookahead::default();
        assert!(guesses(&mut l, &[1, 2], true).is_empty());
        // Behind 2 came 5 5 6 7; the first was right, then the model said 8, and behind the others 6 7 9.
        l.said(&ask(&[1, 2, 5, 8], true), &[5, 5, 6, 7], &[5, 8, 6, 7, 9], 1);
        assert_eq!(guesses(&mut l, &[1, 2, 5, 8], true), [6, 7, 9]);
        assert_eq!(guesses(&mut l, &[4, 5, 6], true), [7, 9], "5 6 went on with 7, and 6 7 with 9");
        l.forget(&ask(&[], true));
        assert!(guesses(&mut l, &[1, 8], true).is_empty());
        assert!(
            guesses(&mut l, &[4, 5, 6], false).is_empty(),
            "a request with a salt sees nothing of others"
        );
    }

    #[test]
    fn what_went_on_in_several_ways_is_guessed_in_several_branches() {
        let mut l = Lookahead::default();
        for (key, next) in [([1, 2], 3), ([1, 2], 4), ([1, 2], 3), ([2, 3], 7), ([2, 4], 8), ([1, 2], 5)] {
            l.insert(key, next);
        }
        l.said(&ask(&[1, 2], true), &[9], &[9, 6], 0);
        let mut chains = |branches| {
            let ask = DraftAsk { branches, ..ask(&[1, 2], true) };
            let chains = l.propose(&[ask]).expect("guesses").swap_remove(0);
            chains.into_iter().map(|chain| chain.tokens).collect::<Vec<_>>()
        };
        assert_eq!(chains(1), [[5]]);
        assert_eq!(chains(4), [vec![5], vec![3, 7], vec![4, 8], vec![6]]);
        assert_eq!(chains(2), [vec![5], vec![3, 7]]);
    }

    #[test]
    fn the_pool_is_bounded() {
        let mut l = Lookahead::default();
        (0..POOL as u32 + 9).for_each(|i| l.insert([i, i], i));
        assert_eq!((l.pool.len(), l.order.len(), l.pool.contains_key(&[8, 8])), (POOL, POOL, false));
    }
}
