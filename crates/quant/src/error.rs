//! What can be wrong with a request to decode or encode.

use lamina_base::{DType, ReadError};

/// A conversion that cannot be done, and why.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum QuantError {
    /// The bytes are no whole number of blocks.
    #[error("{dtype}: {bytes} bytes are no whole number of {block}-byte blocks")]
    PartialBlock {
        /// Type of the blocks.
        dtype: DType,
        /// Length that was given.
        bytes: usize,
        /// Bytes of one block.
        block: usize,
    },
    /// Bytes and elements do not describe the same tensor.
    #[error("{dtype}: {elements} elements take {need}, but {bytes} bytes are there")]
    SizeMismatch {
        /// Type of the blocks.
        dtype: DType,
        /// Number of float values.
        elements: usize,
        /// What `elements` would need, in words.
        need: String,
        /// Length that was given.
        bytes: usize,
    },
    /// A value that no block can hold.
    #[error(
        "{dtype}: cannot encode the value {value} at element {index}; clean the tensor or keep it as F32 or F16"
    )]
    NotFinite {
        /// Type that was asked for.
        dtype: DType,
        /// Element index.
        index: usize,
        /// The value: NaN or an infinity.
        value: f32,
    },
    /// The weights of the columns do not fit the rows.
    #[error(
        "{dtype}: importance of {columns} columns does not divide {elements} elements into rows of whole {block}-element blocks"
    )]
    ImportanceLength {
        /// Type that was asked for.
        dtype: DType,
        /// Length of the importance.
        columns: usize,
        /// Number of float values.
        elements: usize,
        /// Elements of one block.
        block: usize,
    },
    /// An importance that is negative, infinite or NaN.
    #[error("{dtype}: the importance of column {column} is {value}; it must be finite and not negative")]
    ImportanceValue {
        /// Type that was asked for.
        dtype: DType,
        /// Column of the bad weight.
        column: usize,
        /// The weight.
        value: f32,
    },
    /// A type that is only read.
    #[error(
        "{0}: this type can be decoded but not encoded; choose a float or block type such as F16 or Q8_0"
    )]
    CannotEncode(DType),
    /// The bytes cannot be read from their file, or there is no memory.
    #[error(transparent)]
    Read(#[from] ReadError),
}
