//! Panel files for reading.

use super::index::{FileHead, MatrixEntry, PanelIndex};
use crate::{
    buffer::{BLOCK, PageBuffer},
    direct::DirectFile,
    error::PanelError,
};
use std::{ops::Range, path::Path, sync::Mutex, sync::PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// A panel file that is open. Its index is whole; panels are checked when they are read.
#[derive(Debug)]
pub struct PanelFile {
    file: DirectFile,
    index: PanelIndex,
}

/// What is wrong with a file, as an error.
pub(super) fn broken(file: &Path, problem: &str) -> PanelError {
    PanelError::Broken { file: file.to_owned(), problem: problem.to_owned() }
}

impl PanelFile {
    /// Opens the file at `path`, which reads its index.
    ///
    /// # Errors
    /// When it cannot be read, or is no whole panel file.
    pub fn open(path: &Path) -> Result<PanelFile, PanelError> {
        PanelFile::of(DirectFile::open(path).map_err(|e| PanelError::io("open", path, e))?)
    }

    /// The same through the page cache.
    ///
    /// # Errors
    /// As for [`PanelFile::open`].
    pub fn open_buffered(path: &Path) -> Result<PanelFile, PanelError> {
        PanelFile::of(DirectFile::buffered(path).map_err(|e| PanelError::io("open", path, e))?)
    }

    fn of(file: DirectFile) -> Result<PanelFile, PanelError> {
        let path = file.path();
        let failed = |e| PanelError::io("read", path, e);
        let len = file.length().map_err(failed)?;
        if len < BLOCK as u64 || !len.is_multiple_of(BLOCK as u64) {
            return Err(broken(path, "it is cut off"));
        }
        let mut block = PageBuffer::new(BLOCK);
        file.read_blocks(0, block.bytes_mut()).map_err(failed)?;
        let head = FileHead::read(path, block.bytes())?;
        let inside = head.offset.checked_add(head.len).is_some_and(|end| end <= len);
        if !inside || !head.offset.is_multiple_of(BLOCK as u64) {
            return Err(broken(path, "it is cut off"));
        }
        let mut bytes = PageBuffer::new(head.len as usize);
        file.read_blocks(head.offset, bytes.bytes_mut()).map_err(failed)?;
        let index = PanelIndex::read(path, &bytes.bytes()[..head.len as usize], &head)?;
        Ok(PanelFile { file, index })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// What names the model that its panels are of.
    pub fn key(&self) -> &str {
        &self.index.key
    }

    /// Its matrices.
    pub fn matrices(&self) -> &[MatrixEntry] {
        &self.index.matrices
    }

    /// True where reads go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    /// Reads panels of matrix `matrix` into `out`, checked.
    ///
    /// # Errors
    /// When they cannot be read, or are not those that were written.
    pub fn read(&self, matrix: usize, panels: Range<usize>, out: &mut [u8]) -> Result<(), PanelError> {
        let range = PanelRange::new(self, matrix, panels);
        let mut blocks = PageBuffer::new(range.room());
        range.read(self, blocks.bytes_mut())?;
        out.copy_from_slice(&blocks.bytes()[range.inside()]);
        Ok(())
    }
}

#[cfg(unix)]
impl std::os::fd::AsRawFd for PanelFile {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.file.as_raw_fd()
    }
}

/// Some panels of a matrix of a panel file, as the blocks that hold them.
#[derive(Debug)]
pub struct PanelRange {
    /// First byte of the panels in the file.
    start: u64,
    bytes: usize,
    panel_bytes: usize,
    /// Checksums of panels that were not read yet; none once all were.
    unread: Mutex<Option<Vec<u64>>>,
}

impl PanelRange {
    /// Panels `panels` of matrix `matrix` of `file`.
    ///
    /// # Panics
    /// When the matrix has no such panels.
    pub fn new(file: &PanelFile, matrix: usize, panels: Range<usize>) -> PanelRange {
        let entry = &file.index.matrices[matrix];
        PanelRange {
            start: entry.offset + (panels.start * entry.panel_bytes) as u64,
            bytes: panels.len() * entry.panel_bytes,
            panel_bytes: entry.panel_bytes,
            unread: Mutex::new(Some(entry.sums[panels].to_vec())),
        }
    }

    /// Bytes of the blocks that hold the panels.
    pub fn room(&self) -> usize {
        self.inside().end.next_multiple_of(BLOCK)
    }

    /// Where the panels lie in these blocks.
    pub fn inside(&self) -> Range<usize> {
        let skip = (self.start % BLOCK as u64) as usize;
        skip..skip + self.bytes
    }

    /// Reads the blocks into `out`, and checks the panels the first time.
    ///
    /// # Errors
    /// When they cannot be read, or are not those that were written.
    ///
    /// # Panics
    /// When `out` has fewer than [`PanelRange::room`] bytes.
    pub fn read(&self, file: &PanelFile, out: &mut [u8]) -> Result<(), PanelError> {
        self.read_unchecked(file, out)?;
        self.check(file, out)
    }

    /// Where its blocks begin in the file.
    pub(crate) fn first_block(&self) -> u64 {
        self.start / BLOCK as u64 * BLOCK as u64
    }

    /// Reads the blocks into `out`.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) fn read_unchecked(&self, file: &PanelFile, out: &mut [u8]) -> Result<(), PanelError> {
        let read = file.file.read_blocks(self.first_block(), &mut out[..self.room()]);
        read.map_err(|e| PanelError::io("read", file.path(), e))
    }

    /// Checks the panels in blocks that were read into `out`, the first time.
    ///
    /// # Errors
    /// When they are not those that were written.
    pub(crate) fn check(&self, file: &PanelFile, out: &[u8]) -> Result<(), PanelError> {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sums) = &*unread {
            let panels = out[self.inside()].chunks_exact(self.panel_bytes.max(1)).zip(sums);
            if let Some(bad) = panels.into_iter().position(|(panel, sum)| xxh3_64(panel) != *sum) {
                let at = self.start + (bad * self.panel_bytes) as u64;
                return Err(broken(file.path(), &format!("the bytes from {at} on are damaged")));
            }
        }
        *unread = None;
        Ok(())
    }
}
