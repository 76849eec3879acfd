//! The beginning of a file that is not here: what its header says, before the rest is fetched.

use lamina_base::{Bytes, BytesFile, ReadError, StoredBytes};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Bytes in which the header of a safetensors file says its length.
const PREFIX: usize = 8;

/// The first bytes of a file.
#[derive(Debug, Clone)]
pub struct FileBeginning {
    /// Its name in messages.
    pub path: PathBuf,
    /// The bytes.
    pub bytes: Bytes,
    /// Bytes of the whole file.
    pub len: usize,
}

impl BytesFile for FileBeginning {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<(), ReadError> {
        let part = offset.checked_add(out.len()).and_then(|end| self.bytes.get(offset..end));
        let missing =
            || ReadError::Io { file: self.path.clone(), problem: "its beginning alone is here".to_owned() };
        out.copy_from_slice(part.ok_or_else(missing)?);
        Ok(())
    }
}

impl FileBeginning {
    /// All bytes of the file, whether they are at hand or not.
    pub(crate) fn stored(&self) -> StoredBytes {
        StoredBytes::InFile { file: Arc::new(self.clone()), range: 0..self.len }
    }

    /// How many bytes the header of a safetensors file needs, where that is more than there are.
    pub(crate) fn header_wants(&self) -> Option<usize> {
        let wanted = match self.bytes.first_chunk::<PREFIX>() {
            None => PREFIX,
            Some(len) => {
                PREFIX.saturating_add(usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX))
            }
        };
        // A length beyond the file is told by who reads the header.
        (self.bytes.len() < wanted && wanted <= self.len).then_some(wanted)
    }
}
