//! Drafts of an answer: guessed tokens that are verified in its next step, what a request asks of them, what came of them.

use crate::error::{EngineError, Result};
use std::sync::Arc;

/// Kinds of evidence that a drafter tells apart; each has an acceptance rate of its own.
pub const SIGNS: usize = 16;

/// Most drafts of a sequence in one step.
pub const MOST_DRAFTS: usize = 64;

/// Guessed tokens in turn, behind the last token of a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guesses {
    /// The tokens.
    pub tokens: Vec<u32>,
    /// What each guess rests on, below [`SIGNS`]: guesses with equal signs are about equally often right.
    pub signs: Vec<u8>,
}

impl Guesses {
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
}

/// Guesses of one drafter that are verified in a sequence's next step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drafts {
    /// Index of the drafter.
    pub by: usize,
    /// Its guesses.
    pub guesses: Guesses,
}

/// How an answer is drafted. Nothing here changes the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Speculate {
    /// Name of the drafter; none takes whichever promises most of those that are loaded.
    pub method: Option<Arc<str>>,
    /// Drafts of each step, up to [`MOST_DRAFTS`], whatever they cost; 0 is off. None follows measured cost and acceptance.
    pub width: Option<usize>,
}

impl Speculate {
    /// No drafts.
    pub fn off() -> Speculate {
        Speculate { method: None, width: Some(0) }
    }

    /// Refuses drafters that are not among `loaded`, and widths beyond the limit.
    pub(crate) fn check(&self, loaded: &[&str]) -> Result<()> {
        if let Some(width) = self.width.filter(|&w| w > MOST_DRAFTS) {
            let (name, want) = ("the width of speculate", "from 0 to 64");
            return Err(EngineError::Parameter { name, value: width.to_string(), want });
        }
        let needs = self.method.is_some() || self.width.is_some_and(|w| w > 0);
        let known = self.method.as_ref().is_none_or(|m| loaded.contains(&&**m));
        if needs && (loaded.is_empty() || !known) {
            let loaded = if loaded.is_empty() { "none".to_owned() } else { loaded.join(", ") };
            let method = self.method.as_deref().unwrap_or("any").to_owned();
            return Err(EngineError::NoDrafter { method, loaded });
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

/// Drafts of a sequence in one step, when they were verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verified {
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
        let by = |method: Option<&str>, width| Speculate { method: method.map(Arc::from), width };
        assert_eq!(by(None, None).check(&[]), Ok(()));
        assert_eq!(Speculate::off().check(&[]), Ok(()));
        assert!(by(None, Some(4)).check(&[]).is_err_and(|e| e.to_string().contains("loaded with: none")));
        assert_eq!(by(Some("ngram"), None).check(&["ngram", "suffix"]), Ok(()));
        assert!(by(Some("eagle"), None).check(&["ngram"]).is_err());
        assert!(by(None, Some(65)).check(&["ngram"]).is_err());
    }
}
