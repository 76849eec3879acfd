//! Why a trace cannot be made or read.

/// Why a trace cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum SeeError {
    /// A file that holds no trace.
    #[error("this is no trace: {0}; `lamina trace -o FILE.json` writes one")]
    NoTrace(String),
    /// Written by a later version, whose fields mean something else.
    #[error("the trace has version {0}, and this program reads up to {1}: update it")]
    Newer(u32, u32),
    /// Columns of one event have different lengths.
    #[error("the columns of `{0}` have different lengths: the file is damaged")]
    Ragged(&'static str),
    /// A figure that there is not.
    #[error("there is no figure `{name}` here; there are {known}")]
    NoFigure {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// What ended the requests that were to be traced.
    #[error(transparent)]
    Model(#[from] lamina::Error),
}
