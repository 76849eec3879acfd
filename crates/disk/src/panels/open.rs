//! Panel files for reading.

use super::index::{FileHead, MatrixEntry, PanelIndex};
use crate::{
    buffer::{BLOCK, PageBuffer},
    direct::DirectFile,
    error::PanelError,
};
use std::{
    ops::Range,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};
use xxhash_rust::xxh3::xxh3_64;

/// When panels are compared with their checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PanelCheck {
    /// The first time that they are read: what changes on disk later is computed with.
    First,
    /// Whenever they are read.
    #[default]
    Always,
}

/// How panel files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PanelAccess {
    /// Through the page cache.
    pub buffered: bool,
    /// When panels are checked.
    pub check: PanelCheck,
}

/// A panel file that is open. Its index is whole; panels are checked when they are read.
#[derive(Debug)]
pub struct PanelFile {
    file: DirectFile,
    index: PanelIndex,
    check: PanelCheck,
}

impl PanelFile {
    /// Opens the file at `path`, which reads its index.
    ///
    /// # Errors
    /// When it cannot be read, or is no whole panel file.
    pub fn open(path: &Path, access: PanelAccess) -> Result<PanelFile, PanelError> {
        let file = if access.buffered { DirectFile::buffered(path) } else { DirectFile::open(path) };
        PanelFile::of(file.map_err(|e| PanelError::io("open", path, e))?, access.check)
    }

    fn of(file: DirectFile, check: PanelCheck) -> Result<PanelFile, PanelError> {
        let path = file.path();
        let failed = |e| PanelError::io("read", path, e);
        let len = file.length().map_err(failed)?;
        if len < BLOCK as u64 || !len.is_multiple_of(BLOCK as u64) {
            return Err(PanelError::broken(path, "it is cut off"));
        }
        let mut block = PageBuffer::new(BLOCK);
        file.read_blocks(0, block.bytes_mut()).map_err(failed)?;
        let head = FileHead::read(path, block.bytes())?;
        let inside = head.offset.checked_add(head.len).is_some_and(|end| end <= len);
        if !inside || !head.offset.is_multiple_of(BLOCK as u64) {
            return Err(PanelError::broken(path, "it is cut off"));
        }
        let mut bytes = PageBuffer::new(head.len as usize);
        file.read_blocks(head.offset, bytes.bytes_mut()).map_err(failed)?;
        let index = PanelIndex::read(path, &bytes.bytes()[..head.len as usize], &head)?;
        Ok(PanelFile { file, index, check })
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
    matrix: usize,
    panels: Range<usize>,
    /// First byte of the panels in the file.
    start: u64,
    bytes: usize,
    panel_bytes: usize,
    /// All panels were right once.
    seen: AtomicBool,
}

impl PanelRange {
    /// Panels `panels` of matrix `matrix` of `file`.
    ///
    /// # Panics
    /// When the matrix has no such panels.
    pub fn new(file: &PanelFile, matrix: usize, panels: Range<usize>) -> PanelRange {
        let entry = &file.index.matrices[matrix];
        assert!(panels.end <= entry.sums.len(), "a matrix has the panels that are read of it");
        PanelRange {
            start: entry.offset + (panels.start * entry.panel_bytes) as u64,
            bytes: panels.len() * entry.panel_bytes,
            panel_bytes: entry.panel_bytes,
            matrix,
            panels,
            seen: AtomicBool::new(false),
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

    /// Reads the blocks into `out`, and checks the panels.
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

    /// Checks the panels in blocks that were read into `out`. Where they are wrong they are read once more: a disk or its
    /// bus may be wrong once, and what is wrong twice is wrong on disk.
    ///
    /// # Errors
    /// When they are not those that were written.
    pub(crate) fn check(&self, file: &PanelFile, out: &mut [u8]) -> Result<(), PanelError> {
        if file.check == PanelCheck::First && self.seen.load(Relaxed) {
            return Ok(());
        }
        if self.first_wrong(file, out).is_some() {
            self.read_unchecked(file, out)?;
        }
        if let Some(wrong) = self.first_wrong(file, out) {
            let at = self.start + (wrong * self.panel_bytes) as u64;
            return Err(PanelError::broken(file.path(), &format!("the bytes from {at} on are damaged")));
        }
        self.seen.store(true, Relaxed);
        Ok(())
    }

    /// The first of its panels in `out` that has another checksum than when it was written.
    fn first_wrong(&self, file: &PanelFile, out: &[u8]) -> Option<usize> {
        let sums = &file.index.matrices[self.matrix].sums[self.panels.clone()];
        let mut panels = out[self.inside()].chunks_exact(self.panel_bytes.max(1)).zip(sums);
        panels.position(|(panel, sum)| xxh3_64(panel) != *sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panels::{MatrixName, PanelFolder};

    #[test]
    fn what_is_wrong_once_is_read_again() -> Result<(), PanelError> {
        let root = tempfile::tempdir().expect("a folder");
        let mut folder = PanelFolder::open(root.path(), "model", PanelAccess::default())?;
        let name = MatrixName { name: "w".into(), layout: String::new() };
        folder.add::<PanelError>(&[(name.clone(), 8, 1000)], &mut |_, panels, out| {
            panels.zip(out.chunks_exact_mut(1000)).for_each(|(panel, out)| out.fill(panel as u8 + 1));
            Ok(())
        })?;
        let (file, place) = folder.find(&name).expect("written");
        let range = PanelRange::new(file, place, 2..7);
        let mut blocks = PageBuffer::new(range.room());
        range.read(file, blocks.bytes_mut())?;
        let inside = range.inside();
        blocks.bytes_mut()[inside.start + 1500] ^= 8;
        range.check(file, blocks.bytes_mut())?;
        assert_eq!(blocks.bytes()[inside.start + 1500], 4);
        Ok(())
    }
}
