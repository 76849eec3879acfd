//! PLaMo-2's tokenizer: a unigram model whose scores are integers, solved from the end of the text, so that of
//! equal sums the longest first piece wins. Characters that no piece starts with are spelled in byte tokens.

use std::cmp::Reverse;

use aho_corasick::{AhoCorasick, MatchKind};

use super::Encoder;
use crate::error::TokenizeError;
use crate::vocab::{TokenKind, Vocab};

/// The score of a character spelled in bytes, in ten-thousandths.
const BYTES_SCORE: i64 = -10_000_000;
/// Pieces this bad are never used.
const WORST: i64 = -20_000_000;

/// A PLaMo-2 encoder.
pub(crate) struct Plamo2 {
    automaton: AhoCorasick,
    /// By pattern.
    pieces: Vec<(u32, i64)>,
    bytes: Box<[u32; 256]>,
}

impl Plamo2 {
    /// `scores` by id.
    pub fn new(vocab: &Vocab, scores: &[f32]) -> Result<Plamo2, TokenizeError> {
        let problem = "a byte token <0x00> to <0xFF> is missing: convert the model again";
        let bytes =
            vocab.byte_tokens().ok_or_else(|| TokenizeError::malformed("tokenizer.ggml.tokens", problem))?;
        let mut texts = Vec::new();
        let mut pieces = Vec::new();
        for (id, text, kind) in vocab.iter() {
            let score = f64::from(scores.get(id as usize).copied().unwrap_or(0.0)) * 1e4;
            if kind != TokenKind::Byte
                && !text.is_empty()
                && score.is_finite()
                && score.round() as i64 > WORST
            {
                texts.push(text);
                pieces.push((id, score.round() as i64));
            }
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(texts)
            .map_err(|e| TokenizeError::malformed("plamo2 pieces", e.to_string()))?;
        Ok(Plamo2 { automaton, pieces, bytes })
    }
}

impl Encoder for Plamo2 {
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // (start, end, pattern), the last start first and of one start the longest first.
        let mut matches: Vec<(usize, usize, usize)> = self
            .automaton
            .find_overlapping_iter(text)
            .map(|m| (m.start(), m.end(), m.pattern().as_usize()))
            .collect();
        matches.sort_unstable_by_key(|&(start, end, _)| Reverse((start, end)));
        let mut matches = matches.into_iter().peekable();
        let mut best = vec![i64::MIN; text.len() + 1];
        best[text.len()] = 0;
        let mut steps: Vec<(usize, Option<u32>)> = vec![(0, None); text.len()];
        for (start, c) in text.char_indices().rev() {
            while let Some((_, end, pattern)) = matches.next_if(|m| m.0 == start) {
                let (id, score) = self.pieces[pattern];
                if best[end] + score > best[start] {
                    best[start] = best[end] + score;
                    steps[start] = (end, Some(id));
                }
            }
            let end = start + c.len_utf8();
            if best[end] + BYTES_SCORE > best[start] {
                best[start] = best[end] + BYTES_SCORE;
                steps[start] = (end, None);
            }
        }
        let mut at = 0;
        while at < text.len() {
            let (end, id) = steps[at];
            match id {
                Some(id) => out.push(id),
                None => out.extend(text[at..end].bytes().map(|b| self.bytes[b as usize])),
            }
            at = end;
        }
        Ok(())
    }
}
