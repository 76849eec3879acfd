//! Everything that can go wrong with text: one enum, each message names the thing and says what to do.

use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
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
    /// Memory ran out before a chat template was rendered.
    #[error(
        "memory ran out: the chat template's thread needs {bytes} bytes; end other programs or send fewer requests at once"
    )]
    NoStack {
        /// Bytes of its stack.
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
    /// The Hugging Face `tokenizers` library refused something.
    #[error("tokenizer.json: {0}")]
    HuggingFace(String),
    /// A chat template that does not compile.
    #[error("chat template does not compile: {0}")]
    TemplateSyntax(String),
    /// A chat template that failed while rendering.
    #[error("chat template failed: {0}")]
    TemplateFailed(String),
    /// A chat template that met a limit of time, memory or depth.
    #[error("chat template stopped: {0}")]
    TemplateLimit(String),
    /// A chat template that refused the conversation itself (its `raise_exception`).
    #[error("the chat template refuses this conversation: {0}")]
    TemplateRefused(String),
}

impl TextError {
    pub(crate) fn malformed(what: impl Into<String>, problem: impl Into<String>) -> Self {
        TextError::Malformed { what: what.into(), problem: problem.into() }
    }

    pub(crate) fn unsupported(what: impl Into<String>, hint: impl Into<String>) -> Self {
        TextError::Unsupported { what: what.into(), hint: hint.into() }
    }
}
