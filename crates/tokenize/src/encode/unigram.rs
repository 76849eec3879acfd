//! SentencePiece's unigram model (T5, XLM-R and others): of all ways to cut the normalized text into pieces, the
//! one with the greatest sum of scores. Viterbi's algorithm; source: `unigram_model.cc` of SentencePiece.

use aho_corasick::{AhoCorasick, MatchKind};

use super::normalize::Normalizer;
use super::{Encoder, Fallback};
use crate::error::TokenizeError;
use crate::vocab::{TokenKind, Vocab};

/// How much worse than the worst piece an unknown character is.
const UNKNOWN_PENALTY: f64 = 10.0;

/// The pieces that text can become, in one automaton.
pub(crate) struct Lattice {
    automaton: AhoCorasick,
    /// By pattern.
    pieces: Vec<(u32, f64)>,
    unknown_score: f64,
}

impl Lattice {
    /// `scores` by id.
    pub fn new(vocab: &Vocab, scores: &[f32]) -> Result<Lattice, TokenizeError> {
        let score = |id: u32| f64::from(scores.get(id as usize).copied().unwrap_or(0.0));
        let normal =
            vocab.iter().filter(|(_, _, kind)| *kind == TokenKind::Normal).map(|(id, _, _)| score(id));
        let (worst, best) = normal.fold((f64::MAX, f64::MIN), |(lo, hi), s| (lo.min(s), hi.max(s)));
        let mut pieces = Vec::new();
        for (id, text, kind) in vocab.iter().filter(|(_, text, _)| !text.is_empty()) {
            let score = match kind {
                TokenKind::Normal => score(id),
                // A user-defined piece beats any cut of its text.
                TokenKind::UserDefined => text.chars().count() as f64 * best - 0.1,
                _ => continue,
            };
            pieces.push((text, id, score));
        }
        Lattice::of_pieces(pieces, worst.min(0.0))
    }

    /// Pieces with ids and scores; `worst` is what an unknown character is worse than.
    pub fn of_pieces(pieces: Vec<(&str, u32, f64)>, worst: f64) -> Result<Lattice, TokenizeError> {
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(pieces.iter().map(|(text, ..)| text))
            .map_err(|e| TokenizeError::malformed("unigram pieces", e.to_string()))?;
        let pieces = pieces.into_iter().map(|(_, id, score)| (id, score)).collect();
        Ok(Lattice { automaton, pieces, unknown_score: worst - UNKNOWN_PENALTY })
    }
}

/// The best way to reach a place in the text.
#[derive(Clone, Copy)]
struct Best {
    score: f64,
    /// Where its last piece starts.
    start: u32,
    /// None: an unknown character.
    id: Option<u32>,
}

/// A unigram encoder.
pub(crate) struct Unigram {
    pub normalizer: Normalizer,
    pub lattice: Lattice,
    pub fallback: Fallback,
}

impl Encoder for Unigram {
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        let text = self.normalizer.normalize(text);
        for (start, end, id) in self.lattice.cuts(&text) {
            match id {
                Some(id) => out.push(id),
                None => self.fallback.spell(&text[start..end], start, out)?,
            }
        }
        Ok(())
    }
}

impl Lattice {
    /// The best cut of a text: where each piece starts and ends, and its id; none for an unknown character.
    pub fn cuts(&self, text: &str) -> Vec<(usize, usize, Option<u32>)> {
        let best = self.best(text);
        let (mut cuts, mut end) = (Vec::new(), text.len());
        while end > 0 {
            let step = best[end];
            cuts.push((step.start as usize, end, step.id));
            end = step.start as usize;
        }
        cuts.reverse();
        cuts
    }

    /// Whether the best way to any place ends in an unknown character.
    pub fn meets_unknown(&self, text: &str) -> bool {
        self.best(text).iter().skip(1).any(|best| best.id.is_none() && best.score > f64::NEG_INFINITY)
    }

    /// The best way to reach every byte of `text` that a character ends at.
    fn best(&self, text: &str) -> Vec<Best> {
        let mut best = vec![Best { score: f64::NEG_INFINITY, start: 0, id: None }; text.len() + 1];
        best[0].score = 0.0;
        // Matches come by their ends, and of one end the longest first: all that reaches the start of a match is
        // settled before it, and of equal scores the longest piece stays, as in the original.
        let mut matches = self.automaton.find_overlapping_iter(text).peekable();
        for (start, c) in text.char_indices() {
            let end = start + c.len_utf8();
            let mut known = false;
            while let Some(found) = matches.next_if(|found| found.end() <= end) {
                let (id, score) = self.pieces[found.pattern().as_usize()];
                known |= found.start() == start;
                let score = best[found.start()].score + score;
                if score > best[end].score {
                    best[end] = Best { score, start: found.start() as u32, id: Some(id) };
                }
            }
            let score = best[start].score + self.unknown_score;
            if !known && score > best[end].score {
                best[end] = Best { score, start: start as u32, id: None };
            }
        }
        best
    }
}
