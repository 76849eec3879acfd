//! Drafts of an answer: guessed tokens that are verified in its next step, what a request asks of them, what came of them.

use crate::error::{Result, SpeculateError};
use std::sync::Arc;

/// Kinds of evidence that a drafter tells apart; each has an acceptance rate of its own.
pub const SIGNS: usize = 16;

/// Most drafts of a chain in one step.
pub const MOST_DRAFTS: usize = 64;

/// Most chains of a sequence in one step: the first, and branches of it.
pub const MOST_BRANCHES: usize = 4;

/// Chains of guesses for one sequence, each behind its last token, the likeliest first. Of chains that are equal to the
/// beginning of an earlier one, nothing comes.
pub type Proposal = Vec<Guesses>;

/// Guessed tokens in turn, behind the last token of a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guesses {
    /// The tokens.
    pub tokens: Vec<u32>,
    /// What each guess rests on, below [`SIGNS`]: guesses with equal signs are about equally often right.
    pub signs: Vec<u8>,
}

impl Guesses {
    /// None yet, with room for `n`.
    pub fn with_capacity(n: usize) -> Guesses {
        Guesses { tokens: Vec::with_capacity(n), signs: Vec::with_capacity(n) }
    }

    /// Appends a guess.
    pub fn push(&mut self, token: u32, sign: u8) {
        self.tokens.push(token);
        self.signs.push(sign);
    }

    /// Keeps the first `len` guesses.
    pub fn truncate(&mut self, len: usize) {
        self.tokens.truncate(len);
        self.signs.truncate(len);
    }

    /// The proposal of this chain alone; none where it is empty.
    pub fn alone(self) -> Proposal {
        if self.tokens.is_empty() { vec![] } else { vec![self] }
    }

    /// Guesses at the beginning of both.
    pub fn common(&self, other: &Guesses) -> usize {
        self.tokens.iter().zip(&other.tokens).take_while(|(a, b)| a == b).count()
    }
}

/// Guesses of one drafter that are verified in a sequence's next step.
#[derive(Clone, Debug, Default)]
pub struct Drafts {
    /// Index of the drafter.
    pub by: usize,
    /// Its chains: the first one goes on in the sequence's own memory, the others are branches.
    pub chains: Vec<DraftChain>,
}

/// A chain that is verified.
#[derive(Clone, Debug)]
pub struct DraftChain {
    /// The guesses.
    pub guesses: Guesses,
    /// Guesses at its beginning that an earlier chain has, too.
    pub shared: usize,
}

impl Drafts {
    /// Appends a chain.
    pub fn push(&mut self, guesses: Guesses) {
        let shared = self.chains.iter().map(|c| c.guesses.common(&guesses)).max().unwrap_or(0);
        self.chains.push(DraftChain { guesses, shared });
    }

    /// Tokens of chain `i`.
    pub fn tokens(&self, i: usize) -> &[u32] {
        self.chains.get(i).map_or(&[], |c| &c.guesses.tokens)
    }

    /// Guesses that are verified, those that chains share counted once.
    pub fn count(&self) -> usize {
        self.chains.iter().map(|c| c.guesses.tokens.len() - c.shared).sum()
    }
}

/// How an answer is drafted. Nothing here changes the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Speculate {
    /// Name of the drafter; none takes whichever promises most of those that are loaded.
    pub method: Option<Arc<str>>,
    /// Drafts of each step, up to [`MOST_DRAFTS`], whatever they cost; 0 is off. None follows measured cost and acceptance.
    pub width: Option<usize>,
    /// Chains of each step at most, up to [`MOST_BRANCHES`]. None is one beside a set width, and else as many as pay.
    pub branches: Option<usize>,
}

impl Speculate {
    /// No drafts.
    pub fn off() -> Speculate {
        Speculate { width: Some(0), ..Speculate::default() }
    }

    /// Chains of a step that are of use.
    pub fn most_chains(&self) -> usize {
        self.branches.unwrap_or(if self.width.is_some() { 1 } else { MOST_BRANCHES })
    }

    /// Refuses drafters that are not among `loaded`, and numbers beyond the limits.
    ///
    /// # Errors
    /// With what is wrong.
    pub fn check(&self, loaded: &[&str]) -> Result<()> {
        if let Some(width) = self.width.filter(|&w| w > MOST_DRAFTS) {
            let (name, want) = ("the width of speculate", "from 0 to 64");
            return Err(SpeculateError::Parameter { name, value: width.to_string(), want });
        }
        if let Some(n) = self.branches.filter(|n| !(1..=MOST_BRANCHES).contains(n)) {
            let (name, want) = ("the branches of speculate", "from 1 to 4");
            return Err(SpeculateError::Parameter { name, value: n.to_string(), want });
        }
        let needs = self.method.is_some() || self.width.is_some_and(|w| w > 0);
        let known = self.method.as_ref().is_none_or(|m| loaded.contains(&&**m));
        if needs && (loaded.is_empty() || !known) {
            let loaded = if loaded.is_empty() { "none".to_owned() } else { loaded.join(", ") };
            let method = self.method.as_deref().unwrap_or("any").to_owned();
            return Err(SpeculateError::NoDrafter { method, loaded });
        }
        Ok(())
    }
}

/// What drafts did for an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speculation {
    /// Guessed tokens that were verified.
    pub drafted: usize,
    /// Of these, tokens that the answer has.
    pub accepted: usize,
    /// Steps that verified any.
    pub steps: usize,
    /// Name of the drafter that guessed last; empty before any did.
    pub method: &'static str,
}

impl Speculation {
    /// Counts a step that verified `drafted` guesses.
    pub fn count(&mut self, drafted: usize, accepted: usize) {
        self.drafted += drafted;
        self.accepted += accepted;
        self.steps += usize::from(drafted > 0);
    }
}

/// The drafts of a sequence in one step, when they were verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// The chain along which the answer goes on: the first of those that are right furthest.
    pub chain: usize,
    /// What came of each.
    pub seen: Vec<Verified>,
}

impl Verification {
    /// Drafts that are tokens of the answer now.
    pub fn accepted(&self) -> usize {
        self.seen.get(self.chain).map_or(0, |seen| seen.accepted)
    }
}

/// A chain of drafts, when it was verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Drafts that turned out to be the answer's next tokens.
    pub accepted: usize,
    /// Drafts that were compared with a chosen token: the accepted ones, and the first that differs.
    pub compared: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_held_to_what_is_loaded() {
        let by =
            |method: Option<&str>, width| Speculate { method: method.map(Arc::from), width, branches: None };
        assert_eq!(by(None, None).check(&[]), Ok(()));
        assert_eq!(Speculate::off().check(&[]), Ok(()));
        assert!(by(None, Some(4)).check(&[]).is_err_and(|e| e.to_string().contains("loaded with: none")));
        assert_eq!(by(Some("ngram"), None).check(&["ngram", "suffix"]), Ok(()));
        assert!(by(Some("eagle"), None).check(&["ngram"]).is_err());
        assert!(by(None, Some(65)).check(&["ngram"]).is_err());
        let branches = |n| Speculate { branches: Some(n), ..by(None, None) };
        assert_eq!([0, 1, 4, 5].map(|n| branches(n).check(&["ngram"]).is_ok()), [false, true, true, false]);
    }

    #[test]
    fn guesses_that_chains_share_are_counted_once() {
        let chain = |tokens: &[u32]| Guesses { tokens: tokens.to_vec(), signs: vec![0; tokens.len()] };
        let mut drafts = Drafts::default();
        [&[1, 2, 3][..], &[4], &[1, 2, 5, 6]].into_iter().for_each(|tokens| drafts.push(chain(tokens)));
        assert_eq!(drafts.chains.iter().map(|c| c.shared).collect::<Vec<_>>(), [0, 0, 2]);
        assert_eq!((drafts.count(), drafts.tokens(1), drafts.tokens(7)), (6, &[4][..], &[][..]));
    }
}
