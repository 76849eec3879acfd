//! BERT's WordPiece: the text is cleaned, lower-cased and cut into words, and each word is covered from its start
//! by the longest tokens. Sources: `BertNormalizer` and `BertPreTokenizer` of Hugging Face's tokenizers; GGUF
//! writes the start of a word as U+2581 where BERT writes `##` before every other piece.

use ahash::AHashMap;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

use super::{Encoder, Fallback};
use crate::error::TextError;
use crate::vocab::{TokenKind, Vocab};

/// A WordPiece encoder.
pub(crate) struct WordPiece {
    tokens: AHashMap<Box<str>, u32>,
    longest: usize,
    pub lowercase: bool,
    pub strip_accents: bool,
    pub fallback: Fallback,
}

impl WordPiece {
    /// `unknown` stands for every word that the tokens cannot cover.
    pub fn new(vocab: &Vocab, unknown: Option<u32>, lowercase: bool, strip_accents: bool) -> WordPiece {
        let texts = vocab.iter().filter(|(_, _, kind)| *kind != TokenKind::Control);
        let tokens: AHashMap<Box<str>, u32> = texts.map(|(id, text, _)| (text.into(), id)).collect();
        let longest = tokens.keys().map(|text| text.len()).max().unwrap_or(0);
        WordPiece { tokens, longest, lowercase, strip_accents, fallback: Fallback { bytes: None, unknown } }
    }

    /// Appends the pieces of one word (U+2581 before it), or the unknown token.
    fn word(&self, word: &str, out: &mut Vec<u32>) -> Result<(), TextError> {
        let before = out.len();
        let mut start = 0;
        while start < word.len() {
            let mut end = word.floor_char_boundary(start + self.longest);
            let found = loop {
                if end <= start {
                    break None;
                }
                if let Some(&id) = self.tokens.get(&word[start..end]) {
                    break Some(id);
                }
                end = word.floor_char_boundary(end - 1);
            };
            let Some(id) = found else {
                out.truncate(before);
                return self.unknown(word, out);
            };
            out.push(id);
            start = end;
        }
        Ok(())
    }

    fn unknown(&self, word: &str, out: &mut Vec<u32>) -> Result<(), TextError> {
        let word = word.trim_start_matches('\u{2581}');
        let unknown = self.fallback.unknown;
        let error = || TextError::Unencodable { what: format!("{word:?}"), offset: 0 };
        out.push(unknown.ok_or_else(error)?);
        Ok(())
    }

    fn clean(&self, text: &str) -> String {
        let kept = text.chars().filter(|&c| !is_dropped(c));
        let mut clean: String = if self.strip_accents {
            kept.nfd().filter(|c| c.general_category() != GeneralCategory::NonspacingMark).collect()
        } else {
            kept.collect()
        };
        if self.lowercase {
            clean = clean.chars().flat_map(char::to_lowercase).collect();
        }
        clean
    }
}

impl Encoder for WordPiece {
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TextError> {
        let mut word = String::from('\u{2581}');
        let empty = word.len();
        let flush = |word: &mut String, out: &mut Vec<u32>| {
            if word.len() > empty {
                self.word(word, out)?;
                word.truncate(empty);
            }
            Ok::<(), TextError>(())
        };
        for c in self.clean(text).chars() {
            if c.is_whitespace() {
                flush(&mut word, out)?;
            } else if is_alone(c) {
                flush(&mut word, out)?;
                word.push(c);
                flush(&mut word, out)?;
            } else {
                word.push(c);
            }
        }
        flush(&mut word, out)
    }
}

/// Control and format characters other than white space.
fn is_dropped(c: char) -> bool {
    matches!(c, '\0' | char::REPLACEMENT_CHARACTER)
        || (!c.is_whitespace() && c.general_category_group() == GeneralCategoryGroup::Other)
}

/// Punctuation and Chinese characters are words of their own.
fn is_alone(c: char) -> bool {
    c.is_ascii_punctuation() || c.general_category_group() == GeneralCategoryGroup::Punctuation || is_chinese(c)
}

/// The blocks of `tokenize_chinese_chars`.
fn is_chinese(c: char) -> bool {
    matches!(u32::from(c),
        0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2b73f | 0x2b740..=0x2b81f
        | 0x2b920..=0x2ceaf | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}
