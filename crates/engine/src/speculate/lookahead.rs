//! Lookahead decoding (Fu et al., arXiv 2402.02057) without rows of its own: what the model said behind wrong guesses is
//! guessed where it may be right.
//!
//! A step that verifies guesses computes rows behind the first wrong one, too. What those say is the next iteration of
//! a Jacobi solver: it is guessed in the following step. Their pairs of tokens with what came behind them go into a
//! pool, in which later ends of the text are looked up.

use super::drafter::{DraftAsk, Drafter};
use crate::{drafting::Guesses, error::Result};
use std::collections::{HashMap, VecDeque};

/// Entries of the pool, over all sequences: the oldest goes first.
const POOL: usize = 1 << 16;
/// Signs of guesses: from the pool, with one for each of the first depths, and from the last iteration.
const DEPTHS: u8 = 4;

/// Guesses what the model said in rows that were computed for nothing.
#[derive(Default)]
pub struct Lookahead {
    pool: HashMap<[u32; 2], u32>,
    /// Keys of the pool in the order in which they came.
    order: VecDeque<[u32; 2]>,
    /// What the model said last behind a wrong guess, by sequence.
    trajectories: HashMap<u64, Vec<u32>>,
}

impl Lookahead {
    fn insert(&mut self, key: [u32; 2], next: u32) {
        if self.pool.insert(key, next).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > POOL
            && let Some(oldest) = self.order.pop_front()
        {
            self.pool.remove(&oldest);
        }
    }

    /// What the pool has behind the end of a text, again and again.
    fn chain(&self, tokens: &[u32], most: usize) -> Guesses {
        let mut guesses = Guesses::default();
        let &[.., before, last] = tokens else { return guesses };
        let mut end = [before, last];
        while guesses.tokens.len() < most
            && let Some(&next) = self.pool.get(&end)
        {
            guesses.push(next, (guesses.tokens.len() as u8).min(DEPTHS - 1));
            end = [end[1], next];
        }
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

    fn propose(&mut self, asks: &[DraftAsk<'_>]) -> Result<Vec<Guesses>> {
        let one = |ask: &DraftAsk<'_>| {
            let mut guesses = if ask.shared { self.chain(ask.tokens, ask.most) } else { Guesses::default() };
            if guesses.tokens.is_empty() {
                let said = self.trajectories.get(&ask.id).into_iter().flatten().take(ask.most);
                said.zip(DEPTHS..).for_each(|(&token, sign)| guesses.push(token, sign.min(2 * DEPTHS - 1)));
            }
            guesses
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
        DraftAsk { id: 3, tokens, prompt_len: 1, shared, most: 4, edits: Default::default() }
    }

    fn guesses(lookahead: &mut Lookahead, tokens: &[u32], shared: bool) -> Vec<u32> {
        lookahead.propose(&[ask(tokens, shared)]).expect("guesses").swap_remove(0).tokens
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
    fn the_pool_is_bounded() {
        let mut l = Lookahead::default();
        (0..POOL as u32 + 9).for_each(|i| l.insert([i, i], i));
        assert_eq!((l.pool.len(), l.order.len(), l.pool.get(&[8, 8])), (POOL, POOL, None));
    }
}
