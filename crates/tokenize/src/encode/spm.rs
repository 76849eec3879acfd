//! SentencePiece's BPE: the whole normalized text is one word, and of all neighbours that together are a piece the
//! one with the best score joins first. Source: `bpe_model.cc` of SentencePiece.

use ahash::AHashMap;

use super::merge::{Join, MergeRule, Symbol, merge};
use super::normalize::Normalizer;
use super::{Encoder, Fallback};
use crate::error::TokenizeError;
use crate::vocab::{TokenKind, Vocab};

/// A piece and its rank: pieces of one score have one rank.
#[derive(Clone, Copy)]
struct RankedPiece {
    id: u32,
    rank: u32,
}

/// The pieces that text can become.
pub(crate) struct Pieces {
    by_text: AHashMap<Box<[u8]>, RankedPiece>,
    longest: usize,
    /// No piece has a space after another character: then no merge crosses the start of a word, and words can be
    /// merged one by one, which is three times as fast as one heap for the whole text.
    word_by_word: bool,
}

impl Pieces {
    /// `scores` by id; what is control, unknown or a byte is no text and is left out.
    pub fn new(vocab: &Vocab, scores: &[f32]) -> Pieces {
        let score = |id: u32| scores.get(id as usize).copied().unwrap_or(0.0);
        let mut order: Vec<f32> = scores.to_vec();
        order.push(0.0);
        order.sort_unstable_by(|a, b| b.total_cmp(a));
        order.dedup();
        let mut by_text: AHashMap<Box<[u8]>, RankedPiece> = AHashMap::new();
        let mut word_by_word = true;
        for (id, text, kind) in vocab.iter() {
            if matches!(kind, TokenKind::Normal | TokenKind::UserDefined | TokenKind::Unused)
                && !text.is_empty()
            {
                let rank = order.partition_point(|other| other.total_cmp(&score(id)).is_gt()) as u32;
                word_by_word &= word_start(text).is_none();
                by_text.entry(text.as_bytes().into()).or_insert(RankedPiece { id, rank });
            }
        }
        let longest = by_text.keys().map(|text| text.len()).max().unwrap_or(0);
        Pieces { by_text, longest, word_by_word }
    }

    fn get(&self, text: &[u8]) -> Option<RankedPiece> {
        if text.len() > self.longest { None } else { self.by_text.get(text).copied() }
    }
}

/// The first place where a space (U+2581) follows another character.
fn word_start(text: &str) -> Option<usize> {
    let mut spaces = text.match_indices('\u{2581}').map(|(at, _)| at);
    spaces.find(|&at| at > 0 && !text[..at].ends_with('\u{2581}'))
}

/// A character that is no piece.
const NO_PIECE: u32 = (1 << 31) - 1;
/// Marks a user-defined piece: it never joins.
const FROZEN: u32 = 1 << 31;

impl MergeRule for Pieces {
    fn join(&self, left: u32, right: u32, text: &[u8]) -> Option<Join> {
        if (left | right) & FROZEN != 0 {
            return None;
        }
        self.get(text).map(|piece| Join { rank: piece.rank, id: piece.id })
    }
}

/// A SentencePiece encoder for BPE models, and for character models (whose pieces never join).
pub(crate) struct Spm {
    pub normalizer: Normalizer,
    pub pieces: Pieces,
    pub merges: bool,
    pub fallback: Fallback,
}

impl Encoder for Spm {
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        self.encode_from(&self.normalizer.normalize(text), 0, usize::MAX, out).map(drop)
    }

    fn normal(&self, text: String) -> String {
        self.normalizer.normalize(&text)
    }

    fn encode_from(
        &self,
        normal: &str,
        from: usize,
        bytes: usize,
        out: &mut Vec<u32>,
    ) -> Result<usize, TokenizeError> {
        let (mut at, stop) = (from, from.saturating_add(bytes).min(normal.len()));
        let mut symbols = Vec::new();
        while at < stop {
            let rest = &normal[at..];
            let cut = if self.pieces.word_by_word { word_start(rest) } else { None };
            let word = &rest[..cut.unwrap_or(rest.len())];
            self.word(word, &mut symbols, out)?;
            at += word.len();
        }
        Ok(at)
    }
}

impl Spm {
    fn word(&self, text: &str, symbols: &mut Vec<Symbol>, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        symbols.clear();
        self.symbols(text, symbols);
        if self.merges {
            merge(&self.pieces, text.as_bytes(), symbols);
        }
        for (at, symbol) in symbols.iter().enumerate() {
            if symbol.id == NO_PIECE {
                let start = symbol.start as usize;
                let end = symbols.get(at + 1).map_or(text.len(), |next| next.start as usize);
                self.fallback.spell(&text[start..end], start, out)?;
            } else {
                out.push(symbol.id & !FROZEN);
            }
        }
        Ok(())
    }

    /// One symbol per character or user-defined piece.
    fn symbols(&self, text: &str, symbols: &mut Vec<Symbol>) {
        let mut start = 0;
        while let Some(c) = text[start..].chars().next() {
            let frozen = self.normalizer.protected.as_ref().and_then(|p| p.longest(&text[start..]));
            let (id, length) = frozen.map_or_else(
                || {
                    let bytes = &text.as_bytes()[start..start + c.len_utf8()];
                    (self.pieces.get(bytes).map_or(NO_PIECE, |piece| piece.id), c.len_utf8())
                },
                |(id, length)| (id | FROZEN, length),
            );
            symbols.push(Symbol { id, start: start as u32 });
            start += length;
        }
    }
}
