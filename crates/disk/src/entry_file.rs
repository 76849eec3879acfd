//! Entries one after the other in one file of the user: whole, or refused.
//!
//! ```text
//! magic     8 bytes
//! entries   each behind its length, which is 8 bytes and never 0
//! footer    a length of 0, how many entries there are, and a checksum (XXH3, 128 bits) of all before
//! ```
//! Entries have checksums of their own; the footer is what tells that none is missing. Integers are little-endian.

use crate::{
    entry::{Entry, MOST_ENTRY},
    error::EntryFileError,
    whole_file::WholeFile,
};
use lamina_base::files::open_regular;
use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Write},
    path::Path,
};
use xxhash_rust::xxh3::Xxh3;

/// What a file begins with; its last character is the version of the form.
pub type FileMagic = [u8; 8];
/// The checksum at the end.
const SUM: usize = 16;

/// A file that is written. Dropped before [`EntryFileWriter::finish`], it leaves what was there before.
pub struct EntryFileWriter {
    out: BufWriter<WholeFile>,
    hash: Xxh3,
    entries: u64,
    bytes: u64,
}

impl EntryFileWriter {
    /// A file that will be at `path`.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn create(path: &Path, magic: &FileMagic) -> io::Result<EntryFileWriter> {
        let out = BufWriter::new(WholeFile::create(path)?);
        let mut file = EntryFileWriter { out, hash: Xxh3::new(), entries: 0, bytes: 0 };
        file.put(magic)?;
        Ok(file)
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn push(&mut self, entry: &Entry) -> io::Result<()> {
        self.entries += 1;
        self.put(&(entry.bytes().len() as u64).to_le_bytes())?;
        self.put(entry.bytes())
    }

    /// Ends the file and puts it in its place; returns its bytes.
    ///
    /// # Errors
    /// When the disk refuses; what was there before stays.
    pub fn finish(mut self) -> io::Result<u64> {
        let entries = self.entries;
        self.put(&0u64.to_le_bytes())?;
        self.put(&entries.to_le_bytes())?;
        let sum = self.hash.digest128().to_le_bytes();
        self.put(&sum)?;
        self.out.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
        Ok(self.bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

/// A file that is read.
pub struct EntryFileReader {
    file: BufReader<File>,
    hash: Xxh3,
    entries: u64,
    left: u64,
}

impl EntryFileReader {
    /// The file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, or begins with something else than `magic`.
    pub fn open(path: &Path, magic: &FileMagic) -> Result<EntryFileReader, EntryFileError> {
        let file = open_regular(path).map_err(EntryFileError::Io)?;
        let left = file.metadata().map_err(EntryFileError::Io)?.len();
        let mut file = EntryFileReader { file: BufReader::new(file), hash: Xxh3::new(), entries: 0, left };
        match file.take(magic.len() as u64)?.as_slice() {
            begins if begins == magic => Ok(file),
            begins if begins[..7] == magic[..7] => Err(EntryFileError::Version),
            _ => Err(EntryFileError::Kind),
        }
    }

    /// The next entry; none behind the last one, where the file has to be whole.
    ///
    /// # Errors
    /// When the file cannot be read, or anything is not as it was written.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, EntryFileError> {
        match self.number()? {
            0 => self.end().map(|()| None),
            len if len > MOST_ENTRY => Err(EntryFileError::Damaged("it names an entry without end".into())),
            len => {
                self.entries += 1;
                let entry = Entry::parse(self.take(len)?);
                entry.map(Some).map_err(|damage| EntryFileError::Damaged(damage.to_string()))
            }
        }
    }

    fn end(&mut self) -> Result<(), EntryFileError> {
        let entries = self.number()?;
        let sum = self.hash.digest128().to_le_bytes();
        if entries != self.entries || self.take(SUM as u64)? != sum || self.left > 0 {
            return Err(EntryFileError::Damaged("it is not what was written".into()));
        }
        Ok(())
    }

    fn number(&mut self) -> Result<u64, EntryFileError> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().unwrap_or_default()))
    }

    /// The next `len` bytes. A length that the file does not have is found before memory is taken for it.
    fn take(&mut self, len: u64) -> Result<Vec<u8>, EntryFileError> {
        if len > self.left {
            return Err(EntryFileError::Damaged("it is cut off".into()));
        }
        self.left -= len;
        let mut bytes = vec![0; len as usize];
        self.file.read_exact(&mut bytes).map_err(EntryFileError::Io)?;
        self.hash.update(&bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MAGIC: &FileMagic = b"LMNTEST2";

    fn entries() -> Vec<Entry> {
        (0..3u8).map(|i| Entry::new(&[i; 16], b"proof", &[&[i; 40], &[i; 3]])).collect()
    }

    fn write(path: &Path) {
        let mut file = EntryFileWriter::create(path, MAGIC).expect("made");
        entries().iter().for_each(|entry| file.push(entry).expect("written"));
        let bytes = file.finish().expect("finished");
        assert_eq!(bytes, fs::metadata(path).expect("there").len());
    }

    fn read(path: &Path) -> Result<Vec<Entry>, EntryFileError> {
        let (mut file, mut all) = (EntryFileReader::open(path, MAGIC)?, vec![]);
        while let Some(entry) = file.next_entry()? {
            all.push(entry);
        }
        Ok(all)
    }

    #[test]
    fn every_cut_every_flip_and_every_missing_entry_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("entries");
        write(&path);
        assert_eq!(read(&path).expect("whole"), entries());
        let whole = fs::read(&path).expect("readable");
        let refused = |bytes: &[u8], what: &str| {
            fs::write(&path, bytes).expect("written");
            assert!(read(&path).is_err(), "{what}");
        };
        (0..whole.len()).step_by(3).for_each(|len| refused(&whole[..len], &format!("cut to {len}")));
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            refused(&bytes, &format!("byte {at}"));
        }
        let each = 8 + entries()[0].bytes().len();
        for i in 0..3 {
            let (from, to) = (8 + i * each, 8 + (i + 1) * each);
            refused(&[&whole[..from], &whole[to..]].concat(), "an entry is missing");
            refused(&[&whole[..to], &whole[from..]].concat(), "an entry is there twice");
        }
        refused(&[&whole[..], &[0]].concat(), "more behind the end");
    }

    #[test]
    fn other_versions_and_other_files_are_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("entries");
        let open = |bytes: &[u8]| {
            fs::write(&path, bytes).expect("written");
            EntryFileReader::open(&path, MAGIC).err()
        };
        assert!(matches!(open(b"LMNTEST1...."), Some(EntryFileError::Version)));
        assert!(matches!(open(b"GGUF........"), Some(EntryFileError::Kind)));
        assert!(matches!(open(b"GGU"), Some(EntryFileError::Damaged(_))));
        let missing = EntryFileReader::open(&folder.path().join("none"), MAGIC);
        assert!(matches!(missing.err(), Some(EntryFileError::Io(_))));
    }
}
