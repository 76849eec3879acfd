//! Floor 1: every block format of GGUF. A format is one file: the block as it lies in a file, what it means
//! ([`BlockFormat::decode`]) and how to make one ([`BlockFormat::encode`]). One line in the list makes it known to
//! [`format()`], [`decode`], [`encode`] and [`to_f32`].
//!
//! Block layouts are facts of the GGUF format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>, with the
//! `gguf` Python package as the reference for what they decode to.
#![forbid(unsafe_code)]
// The names that model files and their users write.
#![allow(non_camel_case_types)]

mod bits;
mod block;
mod convert;
mod error;
mod formats;
mod le;
mod mixes;
mod plain;
mod search;

pub use block::{BlockFormat, Format};
pub use convert::{decode, encode, to_f32};
pub use error::QuantError;
pub use formats::*;
pub use le::{F16Le, U16Le, U32Le};
pub use mixes::{MIXES, Mix};
