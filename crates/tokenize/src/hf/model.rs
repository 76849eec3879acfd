//! Models of a `tokenizer.json`: from a piece of text to tokens.

use serde_json::Value;

use super::bpe::HfBpe;
use super::ids::TokenIds;
use super::unigram::HfUnigram;
use super::words::{FileWordPiece, WordLevel};

/// One of the four.
pub(super) enum Model {
    Bpe(HfBpe),
    Unigram(HfUnigram),
    WordPiece(FileWordPiece),
    WordLevel(WordLevel),
}

impl Model {
    pub fn read(json: &Value) -> Result<Model, String> {
        Ok(match kind(json) {
            "BPE" => Model::Bpe(HfBpe::read(json)?),
            "Unigram" => Model::Unigram(HfUnigram::read(json)?),
            "WordPiece" => Model::WordPiece(FileWordPiece::read(json)?),
            "WordLevel" => Model::WordLevel(WordLevel::read(json)?),
            other => return Err(format!("{other} is unknown")),
        })
    }

    /// Appends the tokens of a piece of text.
    pub fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), String> {
        match self {
            Model::Bpe(model) => model.encode(text, out),
            Model::Unigram(model) => model.encode(text, out),
            Model::WordPiece(model) => model.encode(text, out),
            Model::WordLevel(model) => model.encode(text, out),
        }
    }

    /// The character before which no merge joins, unless it stands there too: what it begins is encoded by itself.
    pub fn word_start(&self) -> Option<char> {
        match self {
            Model::Bpe(model) => model.word_start,
            _ => None,
        }
    }

    fn ids(&self) -> &TokenIds {
        match self {
            Model::Bpe(model) => &model.ids,
            Model::Unigram(model) => &model.ids,
            Model::WordPiece(model) => &model.ids,
            Model::WordLevel(model) => &model.ids,
        }
    }

    pub fn id(&self, text: &str) -> Option<u32> {
        self.ids().get(text).copied()
    }

    /// The number from which ids of added tokens go on.
    pub fn len(&self) -> usize {
        match self {
            Model::Unigram(model) => model.pieces,
            other => other.ids().len(),
        }
    }

    /// All tokens.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.ids().iter().map(|(text, &id)| (&**text, id))
    }
}

/// Older files leave the type out.
pub(crate) fn kind(model: &Value) -> &str {
    let guess = || match model {
        _ if model.get("merges").is_some() => "BPE",
        _ if model.get("vocab").is_some_and(Value::is_array) => "Unigram",
        _ if model.get("max_input_chars_per_word").is_some() => "WordPiece",
        _ => "WordLevel",
    };
    model.get("type").and_then(Value::as_str).unwrap_or_else(guess)
}
