//! Everything that can go wrong with a conversation: one enum, each message names the thing and says what to do.

use lamina_tokenize::TokenizeError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// A chat template that does not compile.
    #[error("chat template does not compile: {0}")]
    Syntax(String),
    /// A chat template that failed while rendering.
    #[error("chat template failed: {0}")]
    Failed(String),
    /// A chat template that met a limit of time, memory or depth.
    #[error("chat template stopped: {0}")]
    Limit(String),
    /// A chat template that refused the conversation itself (its `raise_exception`).
    #[error("the chat template refuses this conversation: {0}")]
    Refused(String),
    /// Memory ran out before a chat template was rendered.
    #[error(
        "memory ran out: the chat template's thread needs {bytes} bytes; end other programs or send fewer requests at once"
    )]
    NoStack {
        /// Bytes of its stack.
        bytes: usize,
    },
    /// More or fewer markers in the text than there are pictures.
    #[error(
        "the prompt has {found} places for pictures (`{marker}`), but {pictures} pictures came with it: the chat template \
         may not take pictures in messages of this role"
    )]
    Pictures {
        /// Markers in the text.
        found: usize,
        /// Pictures.
        pictures: usize,
        /// The family's marker.
        marker: String,
    },
    /// More or fewer soft tokens than rows.
    #[error(
        "the prompt has {found} tokens `{soft}`, but its pictures have {rows} rows: remove that token from the text"
    )]
    Rows {
        /// The soft token.
        soft: String,
        /// Such tokens in the prompt.
        found: usize,
        /// Rows of all pictures.
        rows: usize,
    },
    /// The tokenizer lacks the soft token of the model's family.
    #[error(
        "the tokenizer has no token `{0}`, which stands for pictures: take the tokenizer of the model that sees"
    )]
    NoSoftToken(String),
    /// The rendered conversation cannot be tokenized.
    #[error(transparent)]
    Tokenize(#[from] TokenizeError),
}

impl ChatError {
    /// Whether there was no memory for it.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, ChatError::NoStack { .. } | ChatError::Tokenize(TokenizeError::OutOfMemory { .. }))
    }
}
