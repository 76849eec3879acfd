//! What can go wrong between one model file and another.

use lamina_arch::ArchError;
use lamina_base::{DType, ReadError};
use lamina_lora::LoraError;
use lamina_quant::QuantError;
use lamina_store::{FormatError, PoolingError};
use lamina_tokenize::TokenizeError;
use std::path::PathBuf;

/// Why a model file cannot be made, or is not sound.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// A file is broken or cannot be read or written.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The checkpoint is not a model that Lamina knows.
    #[error(transparent)]
    Arch(#[from] ArchError),
    /// An adapter is broken, or of another model.
    #[error(transparent)]
    Lora(#[from] LoraError),
    /// The tokenizer cannot be read.
    #[error("tokenizer: {0}")]
    Text(#[from] TokenizeError),
    /// A tensor's values do not fit its new type.
    #[error("tensor `{tensor}`: {source}")]
    Quant {
        /// Its name in the new file.
        tensor: String,
        /// What is wrong.
        source: QuantError,
    },
    /// GGUF has no name for this family.
    #[error("{family}: llama.cpp's format has no such family; run the folder as it is")]
    NoGgufForm {
        /// The family's name.
        family: &'static str,
    },
    /// GGUF has no key for something that this model does.
    #[error(
        "{architecture}: a GGUF file cannot say this of the model: {what}; run the folder as it is, or ask \
         for the key"
    )]
    NotExpressible {
        /// Name in the GGUF file.
        architecture: String,
        /// The setting with its value in the folder, and what a reader of the file would take it for.
        what: String,
    },
    /// A type or mix that is no word of the list.
    #[error("unknown type `{name}`; known: {known}")]
    UnknownType {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// What an encoder of pictures makes falls apart first in its first and last blocks.
    #[error(
        "tensor `{tensor}` would become {dtype}: below Q8_0 an encoder loses what it sees or hears; take Q8_0 or F16, or ask for \
         it with --force"
    )]
    CoarseEncoder {
        /// The first such tensor.
        tensor: String,
        /// The type that was asked for.
        dtype: DType,
    },
    /// Two bits a weight without knowing which weights matter give noise.
    #[error(
        "tensor `{tensor}` would become {dtype}, which needs an importance matrix; give one, or choose a type from \
         Q2_K up"
    )]
    NeedsImatrix {
        /// Its name.
        tensor: String,
        /// Its new type.
        dtype: DType,
    },
    /// An argument that makes no sense for this model.
    #[error("{what} {problem}")]
    Invalid {
        /// Which argument, tensor or file.
        what: String,
        /// What is wrong with it, and what would work.
        problem: String,
    },
    /// A file beside the model cannot be read or has other contents than its name says.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The progress callback said stop. Nothing is left of the half-written file.
    #[error("stopped")]
    Stopped,
}

impl From<PoolingError> for ConvertError {
    fn from(e: PoolingError) -> Self {
        ConvertError::invalid("the pooling of the folder:", e.to_string())
    }
}

impl From<ReadError> for ConvertError {
    fn from(e: ReadError) -> Self {
        ConvertError::Format(e.into())
    }
}

impl ConvertError {
    pub(crate) fn invalid(what: impl Into<String>, problem: impl Into<String>) -> Self {
        ConvertError::Invalid { what: what.into(), problem: problem.into() }
    }

    pub(crate) fn file(path: impl Into<PathBuf>, problem: impl ToString) -> Self {
        ConvertError::File { path: path.into(), problem: problem.to_string() }
    }
}

/// Shorthand of this crate.
pub type Result<T> = std::result::Result<T, ConvertError>;
