//! Why a request gets no answer, and how each dialect says so.

mod shape;

use lamina::EngineError;
use std::time::Duration;

/// Why a request gets no answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    /// What kind of refusal it is.
    pub cause: Cause,
    /// What is wrong, and what would be right. Never a path of this machine, a key, or text of a prompt.
    pub message: String,
    /// The field that is wrong, such as `messages[2].content`.
    pub param: Option<String>,
    /// When to try again.
    pub retry: Option<Duration>,
}

/// Kinds of refusals: each has its status and its names in all dialects (`shape.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// No JSON, a wrong or an unknown field, a refusing template.
    Invalid,
    /// The prompt does not fit.
    TooLong {
        /// Its tokens.
        prompt: usize,
        /// Tokens that fit.
        context: usize,
    },
    /// The key is missing or wrong.
    Unauthorized,
    /// Host or origin are not allowed.
    Forbidden,
    /// There is no model of this name.
    NoModel,
    /// There is nothing at this path.
    NoPath,
    /// The path takes other methods.
    WrongMethod,
    /// Something else goes on that there is one of at a time.
    Conflict,
    /// The body has too many bytes.
    TooLarge,
    /// The body is of another type.
    MediaType,
    /// As many wait as may.
    QueueFull,
    /// The model loads or has failed, or the server is about to end.
    Unavailable,
    /// A fault inside.
    Fault,
    /// It waited or ran too long.
    Timeout,
    /// This model, or this build, cannot do it.
    Unsupported,
}

impl ApiError {
    /// A refusal without more.
    pub fn new(cause: Cause, message: impl Into<String>) -> ApiError {
        ApiError { cause, message: message.into(), param: None, retry: None }
    }

    /// The request is wrong.
    pub fn invalid(message: impl Into<String>) -> ApiError {
        ApiError::new(Cause::Invalid, message)
    }

    /// The field at `param` is wrong.
    pub fn at(param: impl Into<String>, message: impl Into<String>) -> ApiError {
        ApiError { param: Some(param.into()), ..ApiError::invalid(message) }
    }

    /// What this model or build cannot do.
    pub fn unsupported(message: impl Into<String>) -> ApiError {
        ApiError::new(Cause::Unsupported, message)
    }

    /// A defect of the server or the model.
    pub fn fault(message: impl Into<String>) -> ApiError {
        ApiError::new(Cause::Fault, message)
    }

    /// Nothing can be done now.
    pub fn unavailable(message: impl Into<String>, retry: Duration) -> ApiError {
        ApiError { retry: Some(retry), ..ApiError::new(Cause::Unavailable, message) }
    }

    /// The same error, told of the field at `param` unless it names one.
    pub fn of(mut self, param: &str) -> ApiError {
        self.param.get_or_insert_with(|| param.to_owned());
        self
    }
}

impl From<EngineError> for ApiError {
    fn from(e: EngineError) -> Self {
        let cause = match &e {
            EngineError::TooLong { tokens, context } => Cause::TooLong { prompt: *tokens, context: *context },
            EngineError::CacheTooSmall { need, have } => Cause::TooLong { prompt: *need, context: *have },
            EngineError::QueueFull { .. } => Cause::QueueFull,
            EngineError::OutOfMemory(_) => Cause::Unavailable,
            EngineError::NoNextToken => Cause::Unsupported,
            EngineError::Runtime(_)
            | EngineError::DeviceLost(_)
            | EngineError::Panic(_)
            | EngineError::Closed => Cause::Fault,
            _ => Cause::Invalid,
        };
        let mut error = ApiError::new(cause, e.to_string());
        if let EngineError::Parameter { name, .. } = e {
            error.param = Some(name.to_owned());
        }
        error
    }
}

impl From<lamina::Error> for ApiError {
    fn from(e: lamina::Error) -> Self {
        let cause = match e {
            lamina::Error::InvalidRequest(_) => Cause::Invalid,
            lamina::Error::Unsupported(_) => Cause::Unsupported,
            lamina::Error::OutOfMemory(_) => Cause::Unavailable,
            _ => Cause::Fault,
        };
        ApiError::new(cause, e.to_string())
    }
}
