//! Models of whole words: WordPiece covers a word from its start by the longest tokens, WordLevel looks it up.

use serde_json::Value;

use super::field;
use super::ids::{TokenIds, missing, read_ids};
use crate::encode::wordpiece::WordTokens;

/// BERT's model.
pub(super) struct FileWordPiece {
    pub ids: TokenIds,
    tokens: WordTokens,
    /// Characters of the longest word that is covered.
    longest: usize,
    unknown: String,
}

impl FileWordPiece {
    pub fn read(json: &Value) -> Result<FileWordPiece, String> {
        let (ids, prefix) = (read_ids(json)?, field::text(json, "continuing_subword_prefix")?);
        let mut tokens = WordTokens::default();
        for (text, &id) in &ids {
            tokens.first.insert(text, id);
            if let Some(rest) = text.strip_prefix(prefix) {
                tokens.inner.insert(rest, id);
            }
        }
        let longest = field::number(json, "max_input_chars_per_word")?;
        Ok(FileWordPiece { ids, tokens, longest, unknown: field::text(json, "unk_token")?.to_owned() })
    }

    pub fn encode(&self, word: &str, out: &mut Vec<u32>) -> Result<(), String> {
        if word.chars().count() > self.longest || !self.tokens.cover(word, out) {
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
