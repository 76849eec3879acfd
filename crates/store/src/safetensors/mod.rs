//! safetensors: a JSON header with name, type, shape and byte range of each tensor, then the bytes.
//!
//! Read with checks of its own rather than through the `safetensors` crate: that crate rejects the same files, but its
//! errors name neither the file nor, mostly, the tensor.

mod header;
mod index;

pub(crate) use index::join;
pub use index::open_sharded;

use crate::{ModelFile, Tensors, error::Result};
use lamina_base::{Bytes, StoredBytes};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// An opened safetensors file, or all files of a sharded set.
#[derive(Debug)]
pub struct Safetensors {
    /// All tensors, in file order, their bytes still in the files.
    pub tensors: Tensors,
    /// The free `__metadata__` texts of the header; of a sharded set those of its first file.
    pub metadata: BTreeMap<String, String>,
    /// The open files; empty when parsed from memory.
    pub files: Vec<Arc<ModelFile>>,
}

impl Safetensors {
    /// Opens one file.
    ///
    /// # Errors
    /// When the file cannot be read or breaks the format's rules.
    pub fn open(path: impl AsRef<Path>) -> Result<Safetensors> {
        let path = path.as_ref();
        let file = ModelFile::open(path)?;
        let (tensors, metadata) = header::parse(path, &file.stored())?;
        Ok(Safetensors { tensors, metadata, files: vec![file] })
    }

    /// Reads the header of one file, of which nothing else is asked for; `path` is its name in messages.
    pub(crate) fn of_stored(path: &Path, bytes: &StoredBytes) -> Result<Safetensors> {
        let (tensors, metadata) = header::parse(path, bytes)?;
        Ok(Safetensors { tensors, metadata, files: vec![] })
    }

    /// Reads one file from memory; `path` is its name in messages.
    ///
    /// # Errors
    /// When the bytes break the format's rules.
    pub fn from_bytes(path: impl AsRef<Path>, bytes: &Bytes) -> Result<Safetensors> {
        Safetensors::of_stored(path.as_ref(), &bytes.clone().into())
    }
}
