//! Verification of drafts: which of them are the answer's next tokens, by its own choices.

use crate::draft::{DraftChain, Verification, Verified};

/// Chains of drafts while tokens are chosen.
pub struct DraftVerifier<'a> {
    chains: &'a [DraftChain],
    /// Those that were right so far.
    right: Vec<usize>,
    /// How many of their drafts are tokens by now.
    depth: usize,
    seen: Vec<Verified>,
}

impl DraftVerifier<'_> {
    /// Before any token is chosen.
    pub fn new(chains: &[DraftChain]) -> DraftVerifier<'_> {
        let seen = vec![Verified::default(); chains.len()];
        DraftVerifier { chains, right: (0..chains.len()).collect(), depth: 0, seen }
    }

    /// Compares chosen tokens with the drafts; false when none of them goes on. An end token is none, and ends all.
    pub fn follow(&mut self, news: impl IntoIterator<Item = u32>) -> bool {
        let mut ends = true;
        for token in news {
            ends = false;
            if !self.goes_on(Some(token)) {
                return false;
            }
        }
        !ends || self.goes_on(None)
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

    /// The chain that goes on: the first of those that are right furthest.
    pub fn chain(&self) -> usize {
        self.right.first().copied().unwrap_or(0)
    }

    /// How many drafts of that chain are tokens by now.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// What came of all chains.
    pub fn verification(self) -> Verification {
        Verification { chain: self.chain(), seen: self.seen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::{Drafts, Guesses};

    /// Chains that are right after these tokens were chosen, which of them goes on, and what was seen of each.
    fn verified(chains: &[&[u32]], chosen: &[&[u32]]) -> (bool, usize, Vec<(usize, usize)>) {
        let mut drafts = Drafts::default();
        for tokens in chains {
            drafts.push(Guesses { tokens: tokens.to_vec(), signs: vec![0; tokens.len()] });
        }
        let mut verifier = DraftVerifier::new(&drafts.chains);
        let mut goes_on = true;
        for ids in chosen {
            assert!(goes_on, "no row is left to choose from");
            goes_on = verifier.follow(ids.iter().copied());
        }
        (goes_on, verifier.chain(), verifier.seen.iter().map(|s| (s.accepted, s.compared)).collect())
    }

    #[test]
    fn the_answer_goes_on_along_the_chain_that_is_right_furthest() {
        let chains: &[&[u32]] = &[&[1, 2, 3], &[4, 5], &[1, 6]];
        assert_eq!(verified(chains, &[&[1], &[2], &[3]]), (true, 0, vec![(3, 3), (0, 1), (1, 2)]));
        assert_eq!(verified(chains, &[&[1], &[6]]), (true, 2, vec![(1, 2), (0, 1), (2, 2)]));
        assert_eq!(verified(chains, &[&[1], &[6], &[9]]), (false, 2, vec![(1, 2), (0, 1), (2, 2)]));
        assert_eq!(verified(chains, &[&[1], &[7]]), (false, 0, vec![(1, 2), (0, 1), (1, 2)]));
        assert_eq!(verified(chains, &[&[4], &[5]]), (true, 1, vec![(0, 1), (2, 2), (0, 1)]));
        assert_eq!(verified(chains, &[&[8]]), (false, 0, vec![(0, 1); 3]));
    }

    #[test]
    fn forced_tokens_are_compared_in_turn_and_an_end_is_no_draft() {
        let chains: &[&[u32]] = &[&[1, 2, 3], &[1, 2, 4, 5]];
        assert_eq!(verified(chains, &[&[1, 2, 4]]), (true, 1, vec![(2, 3), (3, 3)]));
        assert_eq!(verified(chains, &[&[1, 2, 4, 9, 9]]), (false, 1, vec![(2, 3), (3, 4)]));
        assert_eq!(verified(chains, &[&[1], &[]]), (false, 0, vec![(1, 2); 2]));
        assert_eq!(verified(&[], &[&[1]]), (false, 0, vec![]));
    }
}
