//! Everything that can go wrong with tokenizers: one enum, each message names the thing and says what to do.

use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizeError {
    /// A tokenizer file could not be read.
    #[error("{path}: cannot read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A tokenizer file or a metadata entry is not what its format says.
    #[error("{what}: {problem}")]
    Malformed {
        /// The file, key or field.
        what: String,
        /// What is wrong with it and, where there is one, the remedy.
        problem: String,
    },
    /// A tokenizer of a kind that this crate does not build.
    #[error("{what} is not supported: {hint}")]
    Unsupported {
        /// The kind, as the file names it.
        what: String,
        /// What to do instead.
        hint: String,
    },
    /// The model has no tokenizer, so it can only be used with token ids.
    #[error(
        "this model has no tokenizer: pass token ids instead of text, or add a tokenizer.json beside the weights"
    )]
    NoTokenizer,
    /// The vocabulary cannot spell this text.
    #[error(
        "the vocabulary has no token for {what} at byte {offset} of the text and no unknown token: remove it from the text"
    )]
    Unencodable {
        /// The byte or character.
        what: String,
        /// Where it stands, counted in bytes from the start of the text fragment.
        offset: usize,
    },
    /// A text longer than positions can count.
    #[error("the text has {bytes} bytes; at most {limit} can be tokenized at once: split it")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// There is no memory for what tokenizers make of a long text on the way.
    #[error("there is no memory to tokenize {bytes} bytes or tokens: give less, or end other programs")]
    OutOfMemory {
        /// Bytes of the text, or tokens.
        bytes: usize,
    },
    /// A token id outside the vocabulary.
    #[error("token id {id} is outside the vocabulary of {size} tokens")]
    UnknownId {
        /// The id.
        id: u32,
        /// The number of tokens.
        size: usize,
    },
    /// A `tokenizer.json` is not what its format says, asks for what is not known, or cannot be followed in a text.
    #[error("tokenizer.json: {0}")]
    Json(String),
}

impl TokenizeError {
    pub(crate) fn malformed(what: impl Into<String>, problem: impl Into<String>) -> Self {
        TokenizeError::Malformed { what: what.into(), problem: problem.into() }
    }

    pub(crate) fn unsupported(what: impl Into<String>, hint: impl Into<String>) -> Self {
        TokenizeError::Unsupported { what: what.into(), hint: hint.into() }
    }
}
