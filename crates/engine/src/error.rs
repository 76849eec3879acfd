//! Why a request cannot be served.

use crate::{sample::SampleError, stop::StopError};
use lamina_plan::BackendError;
use lamina_text::TextError;

/// Why a request cannot be served, or ended early.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// There is nothing to continue.
    #[error("the prompt is empty and the model has no token that begins a text: give at least one token")]
    EmptyPrompt,
    /// The prompt does not fit.
    #[error(
        "the prompt has {tokens} tokens, but the context holds {context}: shorten it or load the model with a larger context"
    )]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that fit.
        context: usize,
    },
    /// A token that the model does not know.
    #[error("token {token} is not in the vocabulary of {vocab} tokens")]
    UnknownToken {
        /// The token.
        token: u32,
        /// Number of tokens.
        vocab: usize,
    },
    /// The whole cache is smaller than this one request.
    #[error(
        "the request needs {need} positions of the cache, which has {have}: load the model with a larger context"
    )]
    CacheTooSmall {
        /// Positions that are needed.
        need: usize,
        /// Positions there are.
        have: usize,
    },
    /// A parameter is wrong.
    #[error("{name} is {value}, but must be {want}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What would work.
        want: &'static str,
    },
    /// Sampling failed.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// A stop string is wrong.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// Text could not be made of tokens.
    #[error("{0}")]
    Text(String),
    /// The backend failed.
    #[error("{0}")]
    Backend(String),
    /// The engine's thread has ended.
    #[error("the model was closed")]
    Closed,
}

impl From<TextError> for EngineError {
    fn from(e: TextError) -> Self {
        EngineError::Text(e.to_string())
    }
}

impl From<BackendError> for EngineError {
    fn from(e: BackendError) -> Self {
        EngineError::Backend(e.to_string())
    }
}

/// Shorthand of this floor.
pub type Result<T> = std::result::Result<T, EngineError>;
