//! Byte-pair encoding: the text is split, each piece starts as its bytes (or characters), and pairs merge.

use ahash::AHashMap;

use super::merge::{Join, MergeRule, Symbol, merge};
use super::{Encoder, Fallback};
use crate::error::TokenizeError;
use crate::pre::{Alphabet, WholePieces};
use crate::split::Splitter;

/// Merges listed as pairs, each with its place in the list (GPT-2's `merges.txt`, GGUF, `tokenizer.json`).
#[derive(Default)]
pub(crate) struct PairMerges(pub AHashMap<(u32, u32), Join>);

impl MergeRule for PairMerges {
    fn join(&self, left: u32, right: u32, _text: &[u8]) -> Option<Join> {
        self.0.get(&(left, right)).copied()
    }
}

/// Merges implied by the vocabulary: two neighbours join if together they are a token, the lowest id first (tiktoken).
pub(crate) struct Ranks {
    tokens: AHashMap<Box<[u8]>, u32>,
    longest: usize,
}

impl Ranks {
    pub fn new(tokens: AHashMap<Box<[u8]>, u32>) -> Ranks {
        let longest = tokens.keys().map(|token| token.len()).max().unwrap_or(0);
        Ranks { tokens, longest }
    }

    pub fn get(&self, bytes: &[u8]) -> Option<u32> {
        // The bound keeps one huge word from being hashed again and again.
        if bytes.len() > self.longest { None } else { self.tokens.get(bytes).copied() }
    }
}

impl MergeRule for Ranks {
    fn join(&self, _left: u32, _right: u32, text: &[u8]) -> Option<Join> {
        self.get(text).map(|id| Join { rank: id, id })
    }
}

/// What a piece is before any merge.
pub(crate) enum Atoms {
    Bytes(Box<[Option<u32>; 256]>),
    Chars(AHashMap<char, u32>),
}

/// An atom that is no token. No merge knows it.
const NO_TOKEN: u32 = u32::MAX;

/// A byte-pair encoder; see [`crate::pre`] for the families.
pub(crate) struct Bpe<R> {
    pub splitter: Splitter,
    pub alphabet: Alphabet,
    pub atoms: Atoms,
    pub whole_pieces: WholePieces,
    /// Tokens by their bytes, for pieces that need no merging.
    pub words: Ranks,
    pub rule: R,
    /// Ids from here on are steps of merging that are no tokens.
    pub tokens: u32,
    pub fallback: Fallback,
}

impl<R: MergeRule + Send + Sync> Encoder for Bpe<R> {
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        let whole = usize::MAX;
        match self.alphabet {
            Alphabet::ByteLevel | Alphabet::Words => self.encode_from(text, 0, whole, out),
            Alphabet::Spaced => self.encode_from(&self.normal(text.to_owned()), 0, whole, out),
        }
        .map(drop)
    }

    fn normal(&self, text: String) -> String {
        match self.alphabet {
            Alphabet::ByteLevel | Alphabet::Words => text,
            Alphabet::Spaced => text.replace(' ', "\u{2581}"),
        }
    }

    fn encode_from(
        &self,
        normal: &str,
        from: usize,
        bytes: usize,
        out: &mut Vec<u32>,
    ) -> Result<usize, TokenizeError> {
        let mut symbols = Vec::new();
        let mut each = |piece: &str| self.piece(piece, &mut symbols, out);
        match self.alphabet {
            Alphabet::ByteLevel | Alphabet::Spaced => {
                self.splitter.split_from(normal, from, bytes, &mut each)
            }
            Alphabet::Words => {
                let mut words = normal.split_whitespace();
                words.try_for_each(|word| self.splitter.split(word, &mut each))?;
                Ok(normal.len())
            }
        }
    }
}

impl<R: MergeRule> Bpe<R> {
    fn piece(&self, piece: &str, symbols: &mut Vec<Symbol>, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        let whole = match self.whole_pieces {
            WholePieces::Never => false,
            WholePieces::Always => true,
            WholePieces::LineEnds => piece.bytes().all(|b| b == b'\n'),
        };
        if let Some(id) = whole.then(|| self.words.get(piece.as_bytes())).flatten() {
            out.push(id);
            return Ok(());
        }
        symbols.clear();
        self.atoms(piece, symbols);
        merge(&self.rule, piece.as_bytes(), symbols);
        for (at, symbol) in symbols.iter().enumerate() {
            let end = symbols.get(at + 1).map_or(piece.len(), |next| next.start as usize);
            if symbol.id < self.tokens {
                out.push(symbol.id);
            } else {
                self.spell(piece, symbol.start as usize, end, out)?;
            }
        }
        Ok(())
    }

    fn atoms(&self, piece: &str, symbols: &mut Vec<Symbol>) {
        match &self.atoms {
            Atoms::Bytes(ids) => symbols.extend(piece.bytes().enumerate().map(|(start, byte)| Symbol {
                id: ids[byte as usize].unwrap_or(NO_TOKEN),
                start: start as u32,
            })),
            Atoms::Chars(ids) => symbols.extend(piece.char_indices().map(|(start, c)| Symbol {
                id: ids.get(&c).copied().unwrap_or(NO_TOKEN),
                start: start as u32,
            })),
        }
    }

    /// A symbol that is no token, atom by atom. What has no token at all and no stand-in is left out, as the
    /// reference tokenizers do: some vocabularies lack a few control characters.
    fn spell(&self, piece: &str, start: usize, end: usize, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        match &self.atoms {
            Atoms::Bytes(ids) => {
                let token = |byte: u8| ids[byte as usize].filter(|&id| id < self.tokens);
                out.extend(
                    piece.as_bytes()[start..end].iter().filter_map(|&b| token(b).or(self.fallback.unknown)),
                );
            }
            Atoms::Chars(ids) => {
                for (at, c) in piece[start..end].char_indices() {
                    match ids.get(&c).filter(|&&id| id < self.tokens) {
                        Some(&id) => out.push(id),
                        None if self.fallback.is_empty() => {}
                        None => self.fallback.spell(c.encode_utf8(&mut [0; 4]), start + at, out)?,
                    }
                }
            }
        }
        Ok(())
    }
}
