//! BERT's WordPiece: the text is cleaned, lower-cased and cut into words, and each word is covered from its start
//! by the longest tokens. Sources: `BertNormalizer` and `BertPreTokenizer` of Hugging Face's tokenizers; GGUF
//! writes the start of a word as U+2581 where BERT writes `##` before every other piece.

use ahash::AHashMap;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

use super::Encoder;
use crate::error::TokenizeError;
use crate::vocab::{TokenKind, Vocab};

/// A WordPiece encoder.
pub(crate) struct WordPiece {
    tokens: WordTokens,
    lowercase: bool,
    strip_accents: bool,
    unknown: Option<u32>,
}

/// The tokens of a model, by their places in a word.
#[derive(Default)]
pub(crate) struct WordTokens {
    /// Those that begin a word.
    pub first: Tokens,
    /// Those inside a word, without their prefix.
    pub inner: Tokens,
}

impl WordTokens {
    /// Appends the longest tokens that `word` consists of, from its start; false, and nothing appended, where there are none.
    pub fn cover(&self, word: &str, out: &mut Vec<u32>) -> bool {
        let (before, mut start) = (out.len(), 0);
        while start < word.len() {
            let tokens = if start == 0 { &self.first } else { &self.inner };
            let Some((id, length)) = tokens.longest(&word[start..]) else {
                out.truncate(before);
                return false;
            };
            out.push(id);
            start += length;
        }
        true
    }
}

/// Tokens by what they spell.
#[derive(Default)]
pub(crate) struct Tokens {
    ids: AHashMap<Box<str>, u32>,
    longest: usize,
}

impl Tokens {
    pub fn insert(&mut self, text: &str, id: u32) {
        self.longest = self.longest.max(text.len());
        self.ids.insert(text.into(), id);
    }

    /// The longest token that `text` starts with: its id and length.
    fn longest(&self, text: &str) -> Option<(u32, usize)> {
        let ends = (1..=self.longest.min(text.len())).rev().filter(|&end| text.is_char_boundary(end));
        ends.filter_map(|end| self.ids.get(&text[..end]).map(|&id| (id, end))).next()
    }
}

impl WordPiece {
    /// `unknown` stands for every word that the tokens cannot cover.
    pub fn new(vocab: &Vocab, unknown: Option<u32>, lowercase: bool, strip_accents: bool) -> WordPiece {
        let mut tokens = WordTokens::default();
        for (id, text, _) in vocab.iter().filter(|(_, _, kind)| *kind != TokenKind::Control) {
            match text.strip_prefix('\u{2581}') {
                Some(text) => tokens.first.insert(text, id),
                None => tokens.inner.insert(text, id),
            }
        }
        WordPiece { tokens, lowercase, strip_accents, unknown }
    }

    /// Appends the pieces of one word, or the unknown token.
    fn word(&self, word: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        if !self.tokens.cover(word, out) {
            let error = || TokenizeError::Unencodable { what: format!("{word:?}"), offset: 0 };
            out.push(self.unknown.ok_or_else(error)?);
        }
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
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        let clean = self.clean(text);
        for run in clean.split_whitespace() {
            let mut start = 0;
            for (at, c) in run.char_indices().filter(|(_, c)| is_alone(*c)) {
                self.word(&run[start..at], out)?;
                start = at + c.len_utf8();
                self.word(&run[at..start], out)?;
            }
            self.word(&run[start..], out)?;
        }
        Ok(())
    }
}

/// What `clean_text` removes: control, format and private characters, the line ends of other systems among them.
fn is_dropped(c: char) -> bool {
    use GeneralCategory::{Control, Format, PrivateUse};
    let listed = matches!(c.general_category(), Control | Format | PrivateUse);
    c == char::REPLACEMENT_CHARACTER || (listed && !matches!(c, '\t' | '\n' | '\r'))
}

/// Punctuation and Chinese characters are words of their own.
fn is_alone(c: char) -> bool {
    c.is_ascii_punctuation()
        || c.general_category_group() == GeneralCategoryGroup::Punctuation
        || is_chinese(c)
}

/// The blocks of `tokenize_chinese_chars`.
pub(crate) fn is_chinese(c: char) -> bool {
    matches!(u32::from(c),
        0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2b73f | 0x2b740..=0x2b81f
        | 0x2b920..=0x2ceaf | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}
