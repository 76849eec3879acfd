//! Why a backend could not do its work.

/// Why a backend could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// Memory ran out, or would.
    #[error("{what} needs {need}, but {have} can be had: {advice}")]
    OutOfMemory {
        /// What was to be allocated.
        what: String,
        /// Bytes, in words.
        need: String,
        /// Bytes that can be had, in words.
        have: String,
        /// What the user can change.
        advice: &'static str,
    },
    /// The backend cannot run this operator or type.
    #[error("{backend} cannot run {what}")]
    Unsupported {
        /// Name of the backend.
        backend: &'static str,
        /// Operator, type or size.
        what: String,
    },
    /// The device failed.
    #[error("{backend}: {what}{}", if *lost { "; the device is lost, load the model again" } else { "" })]
    Device {
        /// Name of the backend.
        backend: &'static str,
        /// What failed, in the device's words.
        what: String,
        /// Nothing more can be asked of the device.
        lost: bool,
    },
    /// Reading a weight failed.
    #[error(transparent)]
    Weight(#[from] lamina_arch::ArchError),
}

/// Shorthand of this floor.
pub type Result<T> = std::result::Result<T, BackendError>;
