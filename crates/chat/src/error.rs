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
