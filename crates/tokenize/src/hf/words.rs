//! Models of whole words: WordPiece covers a word from its start by the longest tokens, WordLevel looks it up.

use serde_json::Value;

use super::field;
use super::ids::{TokenIds, missing, read_ids};
use crate::encode::wordpiece::Tokens;

/// BERT's model.
pub(super) struct FileWordPiece {
    pub ids: TokenIds,
    /// Tokens that begin a word.
    first: Tokens,
    /// Tokens inside a word, without their prefix.
    inner: Tokens,
    longest: usize,
    unknown: String,
}

impl FileWordPiece {
    pub fn read(json: &Value) -> Result<FileWordPiece, String> {
        let (ids, prefix) = (read_ids(json)?, field::text(json, "continuing_subword_prefix")?);
        let (mut first, mut inner) = (Tokens::default(), Tokens::default());
        for (text, &id) in &ids {
            first.insert(text, id);
            if let Some(rest) = text.strip_prefix(prefix) {
                inner.insert(rest, id);
            }
        }
        let longest = field::number(json, "max_input_chars_per_word")?;
        Ok(FileWordPiece { ids, first, inner, longest, unknown: field::text(json, "unk_token")?.to_owned() })
    }

    pub fn encode(&self, word: &str, out: &mut Vec<u32>) -> Result<(), String> {
        let before = out.len();
        let mut start = if word.chars().count() > self.longest { usize::MAX } else { 0 };
        while start < word.len() {
            let tokens = if start == 0 { &self.first } else { &self.inner };
            match tokens.longest(&word[start..]) {
                Some((id, length)) => {
                    out.push(id);
                    start += length;
                }
                None => start = usize::MAX,
            }
        }
        if start == usize::MAX {
            out.truncate(before);
            out.push(*self.ids.get(self.unknown.as_str()).ok_or_else(|| missing(&self.unknown))?);
        }
        Ok(())
    }
}

/// Each word is a token or unknown.
pub(super) struct WordLevel {
    pub ids: TokenIds,
    unknown: String,
}

impl WordLevel {
    pub fn read(json: &Value) -> Result<WordLevel, String> {
        Ok(WordLevel { ids: read_ids(json)?, unknown: field::text(json, "unk_token")?.to_owned() })
    }

    pub fn encode(&self, word: &str, out: &mut Vec<u32>) -> Result<(), String> {
        let id = self.ids.get(word).or_else(|| self.ids.get(self.unknown.as_str()));
        out.push(*id.ok_or_else(|| missing(&self.unknown))?);
        Ok(())
    }
}
