//! GGUF, the single-file format of llama.cpp: typed metadata, tensor table, aligned tensor data; little endian.
//!
//! Read from the specification in ggml's `docs/gguf.md`. Versions 2 and 3 have the same layout and are both read;
//! version 1 (32-bit lengths, a few weeks of 2023) and big-endian files end in an error that says what to do.

mod cursor;
mod metadata;
mod parse;
mod partial;
mod split;
pub(crate) use split::ShardName;
mod value;
mod writer;

pub use metadata::{FromValue, Metadata};
pub use value::{Array, Strings, Value};
pub use writer::{Output, Writer};

use crate::{ModelFile, Tensors, error::Result, file_head::FileBeginning};
use lamina_base::Bytes;
use std::{path::Path, sync::Arc};

/// First four bytes of every GGUF file.
pub const MAGIC: [u8; 4] = *b"GGUF";

/// Alignment of tensor data where `general.alignment` says nothing.
pub const DEFAULT_ALIGNMENT: u32 = 32;

/// Most dimensions a tensor can have.
pub const MAX_DIMS: usize = 4;

/// Deepest nesting of arrays that is read. Real files use one level; the limit keeps hostile ones off the stack.
pub const MAX_ARRAY_DEPTH: usize = 8;

/// Tensor names end before this length in what llama.cpp reads; the writer keeps to it, the reader does not care.
pub const MAX_NAME: usize = 64;

/// An opened GGUF file, or all shards of a split one.
#[derive(Debug)]
pub struct Gguf {
    /// Format version, 2 or 3.
    pub version: u32,
    /// All metadata; of a split file that of its first shard.
    pub metadata: Metadata,
    /// All tensors, in file order, their bytes still in the files.
    pub tensors: Tensors,
    /// The open files, in shard order; empty when parsed from memory.
    pub files: Vec<Arc<ModelFile>>,
}

impl Gguf {
    /// Opens the file at `path`; when it is a shard of a split file, all shards beside it.
    ///
    /// # Errors
    /// When a file is missing, is not GGUF, or breaks the format's rules; when shards contradict each other.
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf> {
        split::open(path.as_ref())
    }

    /// Reads a file of which the beginning is at hand; how much of it is needed where that is too little.
    pub(crate) fn of_beginning(file: &FileBeginning) -> Result<std::result::Result<Gguf, usize>> {
        parse::parse_beginning(file)
    }

    /// Adds the tensors of the next shard, which lies at `path`.
    pub(crate) fn join(&mut self, shard: Gguf, path: &Path) -> Result<()> {
        split::join(self, shard, path)
    }

    /// Reads one file from memory; `path` is its name in messages. Shards are not looked for.
    ///
    /// # Errors
    /// When the bytes are not GGUF or break the format's rules.
    pub fn from_bytes(path: impl AsRef<Path>, bytes: &Bytes) -> Result<Gguf> {
        parse::parse(path.as_ref(), bytes)
    }
}
