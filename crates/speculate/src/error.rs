//! Why drafts cannot be made.

use lamina_plan::BackendError;

/// Why drafts cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpeculateError {
    /// A number is beyond its limits.
    #[error("{name} is {value}, but must be {want}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What would work.
        want: &'static str,
    },
    /// A drafter that was not loaded.
    #[error(
        "drafts by {method} were asked for, but the model was loaded with: {loaded}; load it with a draft that has it"
    )]
    NoDrafter {
        /// Its name.
        method: String,
        /// Those that were loaded.
        loaded: String,
    },
    /// The machine of a drafter failed.
    #[error("{0}")]
    Backend(String),
}

impl From<BackendError> for SpeculateError {
    fn from(e: BackendError) -> Self {
        SpeculateError::Backend(e.to_string())
    }
}

/// Shorthand of this floor.
pub type Result<T> = std::result::Result<T, SpeculateError>;
