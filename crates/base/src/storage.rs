//! Where the bytes of a tensor are: in memory, or in a file that is read when they are asked for.

use crate::Bytes;
use std::{
    borrow::Cow,
    fmt,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Why stored bytes cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file was written to or shortened after it was opened.
    #[error("{}: the file was changed while it was in use: load the model again", file.display())]
    Changed {
        /// The file.
        file: PathBuf,
    },
    /// The system refused to read the file.
    #[error("cannot read {}: {problem}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system said.
        problem: String,
    },
    /// There is no memory for them.
    #[error("{what} takes {bytes} bytes, which cannot be had: use a smaller model or end other programs")]
    OutOfMemory {
        /// ``tensor `x` ``.
        what: String,
        /// How many.
        bytes: usize,
    },
}

/// A file whose bytes are read by their place.
pub trait BytesFile: Send + Sync + fmt::Debug {
    /// Where it lies.
    fn path(&self) -> &Path;

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// When the file was changed since it was opened, ends before, or cannot be read.
    fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<(), ReadError>;
}

/// A cheap-to-clone range of bytes in memory or in a file. A file is never mapped: one that is shortened while it is read
/// would end the process, and one that is overwritten would change the numbers of a running model.
#[derive(Clone)]
pub enum StoredBytes {
    /// In memory.
    Held(Bytes),
    /// In a file, at `range`.
    InFile {
        /// The file.
        file: Arc<dyn BytesFile>,
        /// First byte, and the one behind the last.
        range: Range<usize>,
    },
}

impl StoredBytes {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            StoredBytes::Held(bytes) => bytes.len(),
            StoredBytes::InFile { range, .. } => range.len(),
        }
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part `part` of these bytes, or `None` when it reaches beyond them.
    pub fn slice(&self, part: Range<usize>) -> Option<StoredBytes> {
        if part.start > part.end || part.end > self.len() {
            return None;
        }
        Some(match self {
            StoredBytes::Held(bytes) => StoredBytes::Held(bytes.slice(part)?),
            StoredBytes::InFile { file, range } => {
                let start = range.start + part.start;
                StoredBytes::InFile { file: file.clone(), range: start..start + part.len() }
            }
        })
    }

    /// The bytes where they are in memory, and none where they are in a file.
    pub fn held(&self) -> Option<&[u8]> {
        match self {
            StoredBytes::Held(bytes) => Some(bytes),
            StoredBytes::InFile { .. } => None,
        }
    }

    /// The file that they are in.
    pub fn file(&self) -> Option<&Path> {
        match self {
            StoredBytes::Held(_) => None,
            StoredBytes::InFile { file, .. } => Some(file.path()),
        }
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// When the file cannot be read, or was changed.
    ///
    /// # Panics
    /// When `out` reaches beyond these bytes.
    pub fn copy_to(&self, offset: usize, out: &mut [u8]) -> Result<(), ReadError> {
        assert!(offset <= self.len() && out.len() <= self.len() - offset, "bytes inside the range");
        match self {
            StoredBytes::Held(bytes) => out.copy_from_slice(&bytes[offset..offset + out.len()]),
            StoredBytes::InFile { file, range } => file.read_at(range.start + offset, out)?,
        }
        Ok(())
    }

    /// All of them, read where they are in a file. `what` names them where memory does not suffice.
    ///
    /// # Errors
    /// When the file cannot be read or was changed, or there is no memory.
    pub fn read(&self, what: &str) -> Result<Cow<'_, [u8]>, ReadError> {
        if let StoredBytes::Held(bytes) = self {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut out = zeros(self.len(), what)?;
        self.copy_to(0, &mut out)?;
        Ok(Cow::Owned(out))
    }

    /// The same bytes in memory.
    ///
    /// # Errors
    /// As for [`StoredBytes::read`].
    pub fn fetched(&self, what: &str) -> Result<Bytes, ReadError> {
        match self {
            StoredBytes::Held(bytes) => Ok(bytes.clone()),
            StoredBytes::InFile { .. } => Ok(Bytes::from(self.read(what)?.into_owned())),
        }
    }
}

/// `count` zeros for `what`.
///
/// # Errors
/// When there is no memory.
pub fn zeros<T: Clone + Default>(count: usize, what: &str) -> Result<Vec<T>, ReadError> {
    let mut out = vec![];
    out.try_reserve_exact(count).map_err(|_| ReadError::OutOfMemory {
        what: what.to_owned(),
        bytes: count.saturating_mul(size_of::<T>()),
    })?;
    out.resize(count, T::default());
    Ok(out)
}

impl From<Bytes> for StoredBytes {
    fn from(bytes: Bytes) -> Self {
        StoredBytes::Held(bytes)
    }
}

impl From<Vec<u8>> for StoredBytes {
    fn from(bytes: Vec<u8>) -> Self {
        StoredBytes::Held(bytes.into())
    }
}

impl fmt::Debug for StoredBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoredBytes::Held(bytes) => bytes.fmt(f),
            StoredBytes::InFile { file, range } => write!(f, "{} {range:?}", file.path().display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte `i` is `i`; the file has changed behind byte 100.
    #[derive(Debug)]
    struct Counting;

    impl BytesFile for Counting {
        fn path(&self) -> &Path {
            Path::new("counting")
        }

        fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<(), ReadError> {
            if offset + out.len() > 100 {
                return Err(ReadError::Changed { file: "counting".into() });
            }
            out.iter_mut().enumerate().for_each(|(i, byte)| *byte = (offset + i) as u8);
            Ok(())
        }
    }

    #[test]
    fn parts_of_a_file_are_those_of_its_bytes_in_memory() {
        let held = StoredBytes::from((0..100).collect::<Vec<u8>>());
        let stored = StoredBytes::InFile { file: Arc::new(Counting), range: 0..100 };
        for range in [0..100, 5..5, 7..60, 99..100] {
            let (a, b) = (held.slice(range.clone()).expect("inside"), stored.slice(range).expect("inside"));
            assert_eq!(a.len(), b.len());
            assert_eq!(a.read("a").expect("reads"), b.read("b").expect("reads"));
            let parts = [a.slice(0..a.len() / 2), b.slice(0..b.len() / 2)].map(|p| p.expect("inside"));
            assert_eq!(parts[0].held(), Some(&*parts[1].fetched("b").expect("reads")));
        }
        assert!(stored.held().is_none() && stored.slice(50..101).is_none() && held.slice(0..101).is_none());
        assert_eq!(stored.file(), Some(Path::new("counting")));
    }

    #[test]
    fn what_cannot_be_read_or_held_is_an_error() {
        let stored = StoredBytes::InFile { file: Arc::new(Counting), range: 90..110 };
        assert!(matches!(stored.read("x"), Err(ReadError::Changed { .. })));
        let huge = StoredBytes::InFile { file: Arc::new(Counting), range: 0..usize::MAX / 2 };
        let error = huge.read("tensor `x`").expect_err("no memory").to_string();
        assert!(error.starts_with("tensor `x` takes"), "{error}");
    }
}
