//! What can be wrong with an adapter.

use lamina_arch::ArchError;
use lamina_base::ReadError;
use lamina_store::FormatError;
use std::path::PathBuf;

/// Why an adapter cannot be read, or does not fit a model.
#[derive(Debug, thiserror::Error)]
pub enum LoraError {
    /// A file is broken or cannot be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The weights of the model cannot be found.
    #[error(transparent)]
    Arch(#[from] ArchError),
    /// GGUF has no name for this family, so no GGUF adapter can be of it.
    #[error("{family}: llama.cpp's format has no such family; take an adapter that PEFT saved")]
    NoGgufForm {
        /// The family's name.
        family: &'static str,
    },
    /// The adapter holds something else than it should, or is of another model.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

impl From<ReadError> for LoraError {
    fn from(e: ReadError) -> Self {
        LoraError::Format(e.into())
    }
}

impl LoraError {
    pub(crate) fn file(path: impl Into<PathBuf>, problem: impl ToString) -> Self {
        LoraError::File { path: path.into(), problem: problem.to_string() }
    }
}

/// Shorthand of this crate.
pub type Result<T> = std::result::Result<T, LoraError>;
