//! SentencePiece's normalization: characters are mapped, spaces are collapsed and written as U+2581, and a text
//! may get a space before it. Source: `normalizer.cc` of SentencePiece.

use aho_corasick::{AhoCorasick, Anchored, Input, MatchKind, StartKind};

use super::charsmap::Charsmap;
use crate::error::TokenizeError;

/// Where the extra space of a text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DummySpace {
    None,
    Before,
    After,
}

/// Finds the longest user-defined piece at a place in a text.
#[derive(Debug)]
pub(crate) struct ProtectedPieces {
    automaton: AhoCorasick,
    ids: Vec<u32>,
}

impl ProtectedPieces {
    /// None when there are none.
    pub fn new(pieces: &[(u32, &str)]) -> Result<Option<ProtectedPieces>, TokenizeError> {
        if pieces.is_empty() {
            return Ok(None);
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .start_kind(StartKind::Anchored)
            .build(pieces.iter().map(|(_, text)| text))
            .map_err(|e| TokenizeError::malformed("user-defined pieces", e.to_string()))?;
        Ok(Some(ProtectedPieces { automaton, ids: pieces.iter().map(|(id, _)| *id).collect() }))
    }

    /// The id and length of the longest piece that `text` starts with.
    pub fn longest(&self, text: &str) -> Option<(u32, usize)> {
        let found = self.automaton.find(Input::new(text).anchored(Anchored::Yes))?;
        Some((self.ids[found.pattern().as_usize()], found.end())).filter(|(_, length)| *length > 0)
    }
}

/// The settings of one model.
#[derive(Debug)]
pub(crate) struct Normalizer {
    pub charsmap: Option<Charsmap>,
    pub dummy: DummySpace,
    /// Runs of spaces become one; spaces at both ends are dropped.
    pub collapse: bool,
    /// Spaces are written as U+2581.
    pub escape: bool,
    /// Pieces that are left as they are.
    pub protected: Option<ProtectedPieces>,
}

impl Normalizer {
    pub fn normalize(&self, text: &str) -> String {
        let space = if self.escape { '\u{2581}' } else { ' ' };
        let mut rest = text;
        while self.collapse && !rest.is_empty() && self.step(rest).1 == " " {
            rest = &rest[self.step(rest).0..];
        }
        let mut out = String::with_capacity(rest.len() + rest.len() / 2);
        if rest.is_empty() {
            return out;
        }
        if self.dummy == DummySpace::Before {
            out.push(space);
        }
        let mut after_space = self.collapse;
        while !rest.is_empty() {
            let (length, mapped) = self.step(rest);
            let mapped = if after_space { mapped.trim_start_matches(' ') } else { mapped };
            out.extend(mapped.chars().map(|c| if c == ' ' { space } else { c }));
            // A mapping to nothing keeps the state, as in the original.
            if let Some(last) = mapped.chars().next_back() {
                after_space = self.collapse && last == ' ';
            }
            rest = &rest[length..];
        }
        if self.collapse {
            out.truncate(out.trim_end_matches(space).len());
        }
        if self.dummy == DummySpace::After {
            out.push(space);
        }
        out
    }

    /// How much of `text` the next step takes, and what it becomes.
    fn step<'a>(&'a self, text: &'a str) -> (usize, &'a str) {
        if let Some((_, length)) = self.protected.as_ref().and_then(|p| p.longest(text)) {
            return (length, &text[..length]);
        }
        if let Some(found) = self.charsmap.as_ref().and_then(|map| map.longest(text)) {
            return found;
        }
        let length = text.chars().next().map_or(0, char::len_utf8);
        (length, &text[..length])
    }
}
