//! What can be wrong between a checkpoint and a spec.

use lamina_base::ReadError;
use lamina_quant::QuantError;
use lamina_store::FormatError;
use std::fmt::Display;

/// Why a checkpoint is not a model that Lamina can build.
#[derive(Debug, thiserror::Error)]
pub enum ArchError {
    /// No family has this name.
    #[error("architecture `{name}` is not supported; supported: {known}")]
    UnknownArchitecture {
        /// The checkpoint's name for it.
        name: String,
        /// All known names.
        known: String,
    },
    /// A configuration value that no code path exists for.
    #[error("{key} is {found}, but must be {want}")]
    Value {
        /// Key of the configuration.
        key: String,
        /// What it holds.
        found: String,
        /// What would work.
        want: String,
    },
    /// A tensor that the model needs is not in the checkpoint.
    #[error("tensor `{name}` is missing{}; the file is incomplete or of another family", other_names(.tried))]
    MissingTensor {
        /// Canonical name.
        name: String,
        /// Names that were looked for.
        tried: String,
    },
    /// A tensor of another shape than the configuration says.
    #[error("tensor `{name}` is {found}, but the configuration asks for {want}")]
    Shape {
        /// Name in the checkpoint.
        name: String,
        /// Its shape.
        found: String,
        /// The shape that was expected.
        want: String,
    },
    /// A method to pack weights that nobody knows.
    #[error(
        "the weights are quantized by `{method}`, which is not supported; supported: {known}; take such a checkpoint, \
         the unquantized one, or a GGUF file"
    )]
    UnknownPacking {
        /// Its name in the configuration.
        method: String,
        /// All known names.
        known: String,
    },
    /// A weight in several tensors that do not fit together.
    #[error(
        "quantized weight `{name}` of {file}: {problem}; fetch the checkpoint again, or take the unquantized one"
    )]
    Packed {
        /// The file that holds its codes.
        file: String,
        /// Name that the weight has in a plain checkpoint.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The file is broken.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A tensor's type cannot be read here.
    #[error(transparent)]
    Quant(QuantError),
}

impl From<QuantError> for ArchError {
    fn from(e: QuantError) -> Self {
        match e {
            QuantError::Read(e) => e.into(),
            e => ArchError::Quant(e),
        }
    }
}

impl From<ReadError> for ArchError {
    fn from(e: ReadError) -> Self {
        ArchError::Format(e.into())
    }
}

impl ArchError {
    /// A configuration value that is not supported.
    pub fn value(key: &str, found: impl Display, want: impl Display) -> Self {
        ArchError::Value { key: key.into(), found: found.to_string(), want: want.to_string() }
    }
}

/// Shorthand of this floor.
pub type Result<T> = std::result::Result<T, ArchError>;

/// The names that were looked for, if there were any beside the tensor's own.
fn other_names(tried: &str) -> String {
    if tried.is_empty() { String::new() } else { format!(" ({tried})") }
}
