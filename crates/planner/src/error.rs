//! Why a model cannot be placed, or its speed not be told.

use lamina_plan::BackendError;

/// What stands in the way, by what the user can do about it.
#[derive(Debug, thiserror::Error)]
pub enum PlannerError {
    /// Memory does not suffice.
    #[error("{0}")]
    OutOfMemory(String),
    /// An option is wrong, or contradicts the model.
    #[error("{0}")]
    InvalidRequest(String),
    /// The backend cannot.
    #[error("{0}")]
    Unsupported(String),
    /// The machine cannot be measured.
    #[error("{0}")]
    Unmeasured(String),
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// Shorthand of this crate.
pub type Result<T, E = PlannerError> = std::result::Result<T, E>;
