//! What tells two states of a file apart without reading it.

use std::{fs::File, io, time::SystemTime};

/// Length, time of the last write, and which file it is. A file that is replaced by another one of its name, renamed or
/// linked keeps its stamp as long as it is open; one that is written to or shortened does not, unless the writer sets
/// the time back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    /// Device and number of the file, where the system tells.
    file: Option<(u64, u64)>,
}

impl Stamp {
    /// The stamp of an opened file.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn of(file: &File) -> io::Result<Stamp> {
        let meta = file.metadata()?;
        #[cfg(unix)]
        let number = {
            use std::os::unix::fs::MetadataExt;
            Some((meta.dev(), meta.ino()))
        };
        #[cfg(not(unix))]
        let number = None;
        Ok(Stamp { len: meta.len(), modified: meta.modified().ok(), file: number })
    }
}

/// Fills `out` with the bytes of `file` from `offset` on.
///
/// # Errors
/// When the file ends before, or the system refuses.
#[cfg(unix)]
pub(crate) fn read_at(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

/// Fills `out` with the bytes of `file` from `offset` on.
///
/// # Errors
/// When the file ends before, or the system refuses.
#[cfg(windows)]
pub(crate) fn read_at(file: &File, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !out.is_empty() {
        match file.seek_read(out, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => (offset, out) = (offset + n as u64, &mut out[n..]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
