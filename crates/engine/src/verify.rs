//! Verification of drafts: which of them are the answer's next tokens, by its own choices.

use crate::{
    answer::{Answer, Chosen},
    drafting::{DraftChain, Verification, Verified},
    error::Result,
    output::Token,
    row::LogitsRow,
};
use lamina_plan::Rows;

/// Where the rows of an answer's chains of drafts are among those with logits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainRows<'a> {
    /// The row of the last token, before those of the first chain's drafts.
    pub first: usize,
    /// The row of the first draft of each branch.
    pub branches: &'a [usize],
}

impl ChainRows<'_> {
    /// The row of the last of `depth` drafts of a chain, or of the token before them.
    fn at(self, chain: usize, depth: usize) -> usize {
        match (chain, depth) {
            (0, _) | (_, 0) => self.first + depth,
            (branch, _) => self.branches[branch - 1] + depth - 1,
        }
    }
}

/// Chains of drafts while tokens are chosen.
struct Race<'a> {
    chains: &'a [DraftChain],
    /// Those that were right so far.
    right: Vec<usize>,
    /// How many of their drafts are tokens by now.
    depth: usize,
    seen: Vec<Verified>,
}

impl Race<'_> {
    fn new(chains: &[DraftChain]) -> Race<'_> {
        let seen = vec![Verified::default(); chains.len()];
        Race { chains, right: (0..chains.len()).collect(), depth: 0, seen }
    }

    /// Compares chosen tokens with the drafts; false when none of them goes on. An end token is none, and ends all.
    fn follow(&mut self, news: &[Token]) -> bool {
        for token in news {
            if !self.goes_on(Some(token.id)) {
                return false;
            }
        }
        !news.is_empty() || self.goes_on(None)
    }

    fn goes_on(&mut self, token: Option<u32>) -> bool {
        let (depth, mut right) = (self.depth, vec![]);
        for &i in &self.right {
            let Some(&draft) = self.chains[i].guesses.tokens.get(depth) else { continue };
            let is_right = Some(draft) == token;
            self.seen[i] = Verified { accepted: depth + usize::from(is_right), compared: depth + 1 };
            right.extend(is_right.then_some(i));
        }
        if right.is_empty() {
            return false;
        }
        (self.right, self.depth) = (right, depth + 1);
        true
    }

    fn chain(&self) -> usize {
        self.right.first().copied().unwrap_or(0)
    }
}

/// Chooses an answer's next tokens from the row of its last token and from those of its drafts behind it, as long as what
/// is chosen is what a chain of drafts has. `room` tokens are left to the answer.
///
/// Each choice is made exactly as in a step of its own: mask, penalties, random numbers and stop strings follow from the
/// tokens that were chosen before, and rows behind a wrong draft are never looked at. Chains that begin alike have equal
/// bits in their rows, so it is of no matter whose row is read.
///
/// # Errors
/// When the first row leaves no choice; a later one's failure comes behind the tokens before it.
pub(crate) fn choose(
    answer: &mut Answer,
    rows: &dyn Rows,
    places: ChainRows<'_>,
    room: usize,
) -> (Result<Chosen>, Verification) {
    let mut all = match answer.choose(LogitsRow::of(rows, places.first), room) {
        Ok(chosen) => chosen,
        Err(e) => return (Err(e), Verification::default()),
    };
    let chains = std::mem::take(&mut answer.drafts.chains);
    let mut race = Race::new(&chains);
    let mut met = 0;
    // Forced tokens may be several: those that were drafted have their rows, and the last of them goes on.
    while race.follow(&all.tokens[met..]) && all.stop.is_none() && all.tokens.len() < room {
        met = all.tokens.len();
        let row = LogitsRow::of(rows, places.at(race.chain(), race.depth));
        match answer.choose(row, room - met) {
            Ok(chosen) => all.append(chosen),
            Err(e) => {
                all.failure = Some(e);
                break;
            }
        }
    }
    let verification = Verification { chain: race.chain(), seen: race.seen };
    answer.drafts.chains = chains;
    (Ok(all), verification)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drafting::{Drafts, Guesses};

    fn token(id: u32) -> Token {
        Token { index: 0, id, text: String::new(), forced: false, logprob: None, top: vec![] }
    }

    /// Chains that are right after these tokens were chosen, which of them goes on, and what was seen of each.
    fn raced(chains: &[&[u32]], chosen: &[&[u32]]) -> (bool, usize, Vec<(usize, usize)>) {
        let mut drafts = Drafts::default();
        for tokens in chains {
            drafts.push(Guesses { tokens: tokens.to_vec(), signs: vec![0; tokens.len()] });
        }
        let mut race = Race::new(&drafts.chains);
        let mut goes_on = true;
        for ids in chosen {
            assert!(goes_on, "no row is left to choose from");
            goes_on = race.follow(&ids.iter().map(|&id| token(id)).collect::<Vec<_>>());
        }
        (goes_on, race.chain(), race.seen.iter().map(|s| (s.accepted, s.compared)).collect())
    }

    #[test]
    fn the_answer_goes_on_along_the_chain_that_is_right_furthest() {
        let chains: &[&[u32]] = &[&[1, 2, 3], &[4, 5], &[1, 6]];
        assert_eq!(raced(chains, &[&[1], &[2], &[3]]), (true, 0, vec![(3, 3), (0, 1), (1, 2)]));
        assert_eq!(raced(chains, &[&[1], &[6]]), (true, 2, vec![(1, 2), (0, 1), (2, 2)]));
        assert_eq!(raced(chains, &[&[1], &[6], &[9]]), (false, 2, vec![(1, 2), (0, 1), (2, 2)]));
        assert_eq!(raced(chains, &[&[1], &[7]]), (false, 0, vec![(1, 2), (0, 1), (1, 2)]));
        assert_eq!(raced(chains, &[&[4], &[5]]), (true, 1, vec![(0, 1), (2, 2), (0, 1)]));
        assert_eq!(raced(chains, &[&[8]]), (false, 0, vec![(0, 1); 3]));
    }

    #[test]
    fn forced_tokens_are_compared_in_turn_and_an_end_is_no_draft() {
        let chains: &[&[u32]] = &[&[1, 2, 3], &[1, 2, 4, 5]];
        assert_eq!(raced(chains, &[&[1, 2, 4]]), (true, 1, vec![(2, 3), (3, 3)]));
        assert_eq!(raced(chains, &[&[1, 2, 4, 9, 9]]), (false, 1, vec![(2, 3), (3, 4)]));
        assert_eq!(raced(chains, &[&[1], &[]]), (false, 0, vec![(1, 2); 2]));
        assert_eq!(raced(&[], &[&[1]]), (false, 0, vec![]));
    }
}
