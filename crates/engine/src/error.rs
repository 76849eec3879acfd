//! Why a request cannot be served.

use lamina_grammar::GrammarError;
use lamina_plan::BackendError;
use lamina_sample::{SampleError, stop::StopError};
use lamina_speculate::SpeculateError;
use lamina_tokenize::TokenizeError;

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
    /// An encoder was asked for a next token.
    #[error("this model reads texts and writes none: it embeds them, or scores them as a reranker does")]
    NoNextToken,
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
    /// Drafts cannot be made as they were asked for.
    #[error(transparent)]
    Speculate(SpeculateError),
    /// As many requests wait as may.
    #[error("{limit} requests wait already, and no more may: try again later, or raise the queue's limit")]
    QueueFull {
        /// Requests that may wait.
        limit: usize,
    },
    /// Sampling parameters are wrong, or leave nothing to choose from.
    #[error(transparent)]
    Sample(SampleError),
    /// The grammar allows no token that the row of logits leaves.
    #[error(
        "no token may follow {after:?}: the grammar allows none that the model and the sampling parameters leave"
    )]
    NoLegalToken {
        /// The last characters of the answer.
        after: String,
    },
    /// A grammar failed, or reached a limit.
    #[error(transparent)]
    Grammar(#[from] GrammarError),
    /// A stop string is wrong.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// Text could not be made of tokens.
    #[error("{0}")]
    Text(String),
    /// Memory ran out in a step.
    #[error("{0}")]
    OutOfMemory(String),
    /// The backend or the model's arithmetic failed in a step.
    #[error("{0}")]
    Runtime(String),
    /// The device is gone: the service has ended, and the model has to be loaded again.
    #[error("{0}")]
    DeviceLost(String),
    /// The engine's thread panicked: the service has ended, and the model has to be loaded again.
    #[error("the engine panicked: {0}; this is a defect of Lamina, please report it. Load the model again")]
    Panic(String),
    /// The engine was closed.
    #[error("the model was closed")]
    Closed,
}

impl EngineError {
    /// True when no later request can be served either.
    pub fn is_fatal(&self) -> bool {
        matches!(self, EngineError::DeviceLost(_) | EngineError::Panic(_) | EngineError::Closed)
    }
}

/// Ends what is going on when memory has run out, before the reserve behind small allocations has too.
pub(crate) fn enough_memory() -> Result<()> {
    match lamina_reserve::whole() {
        true => Ok(()),
        false => Err(EngineError::OutOfMemory(
            "memory ran out: send fewer or smaller requests at once, or end other programs".into(),
        )),
    }
}

impl From<SampleError> for EngineError {
    /// What is wrong with the logits is a fault of the model or the machine, not of the request.
    fn from(e: SampleError) -> Self {
        match e {
            SampleError::NotANumber { .. } | SampleError::WrongLength { .. } => {
                EngineError::Runtime(e.to_string())
            }
            e => EngineError::Sample(e),
        }
    }
}

impl From<SpeculateError> for EngineError {
    fn from(e: SpeculateError) -> Self {
        match e {
            SpeculateError::Parameter { name, value, want } => EngineError::Parameter { name, value, want },
            e => EngineError::Speculate(e),
        }
    }
}

impl From<TokenizeError> for EngineError {
    fn from(e: TokenizeError) -> Self {
        EngineError::Text(e.to_string())
    }
}

impl From<BackendError> for EngineError {
    fn from(e: BackendError) -> Self {
        match e {
            BackendError::OutOfMemory { .. } => EngineError::OutOfMemory(e.to_string()),
            BackendError::Device { lost: true, .. } => EngineError::DeviceLost(e.to_string()),
            e => EngineError::Runtime(e.to_string()),
        }
    }
}

/// Shorthand of this floor.
pub type Result<T> = std::result::Result<T, EngineError>;
