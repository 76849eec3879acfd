//! One error for users, by kinds that they can act on.

use crate::setting::OptionError;
use lamina_arch::ArchError;
use lamina_base::ReadError;
use lamina_engine::EngineError;
use lamina_lora::LoraError;
use lamina_plan::BackendError;
use lamina_planner::PlannerError;
use lamina_store::FormatError;
use lamina_tokenize::TokenizeError;

/// What went wrong, by what the user can do about it. Each message says what, where, and what to do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// There is no model at the path, or it cannot be read.
    #[error("{0}")]
    Model(String),
    /// A file is broken.
    #[error("{0}")]
    Format(String),
    /// The model, type or device is not supported.
    #[error("{0}")]
    Unsupported(String),
    /// Memory does not suffice.
    #[error("{0}")]
    OutOfMemory(String),
    /// The device is gone: the model has to be loaded again.
    #[error("{0}")]
    DeviceLost(String),
    /// A request or an option is wrong.
    #[error("{0}")]
    InvalidRequest(String),
    /// Something else failed while running.
    #[error("{0}")]
    Runtime(String),
}

/// Shorthand of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Ends what is going on when memory has run out, before the reserve behind small allocations has too.
///
/// # Errors
/// Then, with `what` went on.
pub fn enough_memory(what: &str) -> Result<()> {
    match lamina_reserve::whole() {
        true => Ok(()),
        false => Err(Error::OutOfMemory(format!(
            "memory ran out while {what}: use a smaller or more strongly quantized model, or end other programs"
        ))),
    }
}

impl From<FormatError> for Error {
    fn from(e: FormatError) -> Self {
        let text = e.to_string();
        match e {
            FormatError::Read(ReadError::OutOfMemory { .. }) => Error::OutOfMemory(text),
            FormatError::Io { .. } | FormatError::NotAModel { .. } | FormatError::Read(_) => {
                Error::Model(text)
            }
            FormatError::Unsupported { .. } => Error::Unsupported(text),
            _ => Error::Format(text),
        }
    }
}

impl From<ArchError> for Error {
    fn from(e: ArchError) -> Self {
        match e {
            ArchError::Format(e) => e.into(),
            ArchError::UnknownArchitecture { .. }
            | ArchError::Value { .. }
            | ArchError::UnknownPacking { .. } => Error::Unsupported(e.to_string()),
            e => Error::Format(e.to_string()),
        }
    }
}

impl From<LoraError> for Error {
    fn from(e: LoraError) -> Self {
        match e {
            LoraError::Format(e) => e.into(),
            LoraError::Arch(e) => e.into(),
            e => Error::Format(e.to_string()),
        }
    }
}

impl From<PlannerError> for Error {
    fn from(e: PlannerError) -> Self {
        match e {
            PlannerError::OutOfMemory(text) => Error::OutOfMemory(text),
            PlannerError::InvalidRequest(text) => Error::InvalidRequest(text),
            PlannerError::Unsupported(text) => Error::Unsupported(text),
            PlannerError::Unmeasured(text) => Error::Runtime(text),
            PlannerError::Backend(e) => e.into(),
        }
    }
}

impl From<BackendError> for Error {
    fn from(e: BackendError) -> Self {
        match e {
            BackendError::OutOfMemory { .. } => Error::OutOfMemory(e.to_string()),
            BackendError::Unsupported { .. } => Error::Unsupported(e.to_string()),
            BackendError::Device { lost: true, .. } => Error::DeviceLost(e.to_string()),
            BackendError::Device { .. } => Error::Runtime(e.to_string()),
            BackendError::Weight(e) => e.into(),
        }
    }
}

impl From<EngineError> for Error {
    fn from(e: EngineError) -> Self {
        match e {
            EngineError::NoNextToken => Error::Unsupported(e.to_string()),
            EngineError::OutOfMemory(text) => Error::OutOfMemory(text),
            EngineError::DeviceLost(_) => Error::DeviceLost(e.to_string()),
            EngineError::Grammar(g) if g.is_unsupported() => Error::Unsupported(g.to_string()),
            EngineError::Grammar(g) if g.is_failure() => Error::Runtime(g.to_string()),
            EngineError::Runtime(_) | EngineError::QueueFull { .. } | EngineError::NoLegalToken { .. } => {
                Error::Runtime(e.to_string())
            }
            e if e.is_fatal() => Error::Runtime(e.to_string()),
            e => Error::InvalidRequest(e.to_string()),
        }
    }
}

impl From<lamina_engine::sample::SampleError> for Error {
    fn from(e: lamina_engine::sample::SampleError) -> Self {
        Error::InvalidRequest(e.to_string())
    }
}

impl From<TokenizeError> for Error {
    fn from(e: TokenizeError) -> Self {
        match e {
            TokenizeError::OutOfMemory { .. } => Error::OutOfMemory(e.to_string()),
            e => Error::InvalidRequest(e.to_string()),
        }
    }
}

impl From<OptionError> for Error {
    fn from(e: OptionError) -> Self {
        Error::InvalidRequest(e.to_string())
    }
}
