//! Model files that are open: parts are read by their place when they are used, and a file that has changed is an error.

use crate::{
    error::{FormatError, Result},
    stamp::{self, Stamp},
};
use lamina_base::{Bytes, BytesFile, ReadError, StoredBytes, files::open_regular, zeros};
use std::{
    fs::{File, Metadata},
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file of weights. It is read and never mapped: who shortens a mapped file ends the process that reads it, and who
/// overwrites one changes its numbers. Stays open as long as a tensor of it lives.
#[derive(Debug)]
pub struct ModelFile {
    file: File,
    /// Of the file when it was opened.
    stamp: Stamp,
    len: usize,
    path: PathBuf,
}

impl ModelFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// When the path is no regular file (a pipe would block, a folder has no bytes), is empty, or cannot be opened.
    pub fn open(path: &Path) -> Result<Arc<ModelFile>> {
        let failed = |e| FormatError::io("open", path, e);
        length(path, &std::fs::metadata(path).map_err(failed)?)?;
        let file = open_regular(path).map_err(failed)?;
        let len = length(path, &file.metadata().map_err(failed)?)?;
        let stamp = Stamp::of(&file).map_err(failed)?;
        Ok(Arc::new(ModelFile { file, stamp, len, path: path.to_owned() }))
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length in bytes when it was opened.
    pub fn len(&self) -> usize {
        self.len
    }

    /// False always, since an empty file is refused; here because a length asks for it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What tells this state of the file from others.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// All bytes of the file, none of them read.
    pub fn stored(self: &Arc<Self>) -> StoredBytes {
        StoredBytes::InFile { file: self.clone(), range: 0..self.len }
    }

    /// The first `count` bytes, or all where there are fewer.
    ///
    /// # Errors
    /// When they cannot be read, were changed, or do not fit into memory.
    pub fn beginning(&self, count: usize) -> Result<Bytes> {
        let mut bytes = zeros(count.min(self.len), &format!("the header of {}", self.path.display()))?;
        self.read_at(0, &mut bytes)?;
        Ok(bytes.into())
    }
}

impl BytesFile for ModelFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<(), ReadError> {
        let failed = |e: std::io::Error| ReadError::Io { file: self.path.clone(), problem: e.to_string() };
        let read = stamp::read_at(&self.file, offset as u64, out);
        // After the read: what was written before it has left its time.
        if Stamp::of(&self.file).map_err(failed)? != self.stamp {
            return Err(ReadError::Changed { file: self.path.clone() });
        }
        read.map_err(failed)
    }
}

fn length(path: &Path, meta: &Metadata) -> Result<usize> {
    if !meta.is_file() {
        return Err(FormatError::not_a_model(path, "is no regular file", "give the path of a model file"));
    }
    if meta.len() == 0 {
        let advice = "the download was probably cut off: fetch the file again";
        return Err(FormatError::not_a_model(path, "the file is empty", advice));
    }
    usize::try_from(meta.len()).map_err(|_| {
        FormatError::not_a_model(path, "is larger than this system can address", "use a 64-bit system")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_is_an_error_where_it_is_read() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("data");
        let open = || {
            std::fs::write(&path, vec![7; 10_000]).expect("write");
            // Times of files are as fine as the system's ticks.
            let past = std::time::SystemTime::now() - std::time::Duration::from_secs(9);
            File::options().write(true).open(&path).expect("opens").set_modified(past).expect("sets");
            ModelFile::open(&path).expect("opens")
        };
        let mut out = [0; 100];
        let file = open();
        file.read_at(9_900, &mut out).expect("reads");
        assert_eq!((out, file.len()), ([7; 100], 10_000));
        assert!(file.read_at(9_901, &mut out).is_err(), "behind the end");
        assert_eq!(file.beginning(20_000).expect("all of it").len(), 10_000);
        // Another file of the same name changes nothing.
        let other = dir.path().join("other");
        std::fs::write(&other, [1; 50]).expect("write");
        std::fs::rename(&other, &path).expect("rename");
        file.read_at(0, &mut out).expect("reads the old one");
        let changes: [fn(&File); 2] = [
            |file| file.set_len(64).expect("shortens"),
            |mut file| std::io::Write::write_all(&mut file, &[9; 300]).expect("writes"),
        ];
        for change in changes {
            let file = open();
            change(&File::options().write(true).open(&path).expect("opens"));
            for offset in [0, 5_000] {
                let error = file.read_at(offset, &mut out).expect_err("has changed");
                assert!(matches!(error, ReadError::Changed { .. }), "{error}");
            }
            assert!(file.stored().read("x").is_err() && file.beginning(10).is_err());
        }
    }

    #[test]
    fn folders_and_empty_files_are_refused() {
        let dir = tempfile::tempdir().expect("temp dir");
        let empty = dir.path().join("empty.gguf");
        std::fs::write(&empty, b"").expect("write");
        let error = |path: &Path| ModelFile::open(path).expect_err("refused").to_string();
        assert!(error(&empty).contains("empty.gguf: the file is empty"));
        assert!(error(dir.path()).contains("no regular file"));
    }
}
