//! Writing panel files: whole or absent, whenever the writer is stopped.

use super::index::{FileHead, MatrixEntry, MatrixName, PanelIndex};
use crate::{
    buffer::BLOCK,
    direct::{forget, reserve},
    error::{NoRoom, PanelError},
    whole_file::UNFINISHED,
};
use lamina_base::files::sync_folder;
use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
    ops::Range,
    path::Path,
};
use tempfile::NamedTempFile;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes that are packed before they are written.
const WINDOW: usize = 32 << 20;

/// A panel file that is being written. It has its name once [`PanelWriter::finish`] returns.
pub struct PanelWriter {
    file: NamedTempFile,
    index: PanelIndex,
    at: u64,
}

/// Called with a matrix, some of its panels and memory for them.
pub type WriteWindow<'a, E> = &'a mut dyn FnMut(usize, Range<usize>, &mut [u8]) -> Result<(), E>;

impl PanelWriter {
    /// A file for `matrices`, given as name, panels and bytes of a panel, in a folder. Its whole length is asked for
    /// before anything is written.
    ///
    /// # Errors
    /// When the disk has no room, or the folder cannot be written.
    pub fn new(
        folder: &Path,
        key: &str,
        matrices: impl IntoIterator<Item = (MatrixName, usize, usize)>,
    ) -> Result<PanelWriter, PanelError> {
        let mut at = BLOCK as u64;
        let mut index = PanelIndex { key: key.to_owned(), matrices: vec![] };
        for (name, panels, panel_bytes) in matrices {
            let entry = MatrixEntry { name, offset: at, panel_bytes, sums: vec![0; panels] };
            at = (at + entry.bytes()).next_multiple_of(BLOCK as u64);
            index.matrices.push(entry);
        }
        let len = (at + index.bytes().len() as u64).next_multiple_of(BLOCK as u64);
        let failed = |source| {
            PanelError::Full(NoRoom {
                what: "weights that are read from disk take",
                folder: folder.to_owned(),
                bytes: len,
                source,
                advice: "free space, or name another folder with panel_cache",
            })
        };
        let file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder).map_err(failed)?;
        reserve(file.as_file(), len).map_err(failed)?;
        Ok(PanelWriter { file, index, at })
    }

    /// Has `pack` fill every panel of every matrix, some at a time, and writes them.
    ///
    /// # Errors
    /// Those of `pack`; when the disk fails, which leaves no file.
    pub fn write<E: From<PanelError>>(&mut self, pack: WriteWindow<'_, E>) -> Result<(), E> {
        let mut window = vec![];
        for matrix in 0..self.index.matrices.len() {
            let MatrixEntry { panel_bytes, ref sums, .. } = self.index.matrices[matrix];
            let (panels, some) = (sums.len(), (WINDOW / panel_bytes.max(1)).max(1));
            for first in (0..panels).step_by(some) {
                let range = first..panels.min(first + some);
                window.resize(range.len() * panel_bytes, 0);
                pack(matrix, range.clone(), &mut window)?;
                self.put(matrix, range, &window).map_err(|e| self.failed(e))?;
            }
        }
        Ok(())
    }

    fn put(&mut self, matrix: usize, panels: Range<usize>, bytes: &[u8]) -> io::Result<()> {
        let entry = &mut self.index.matrices[matrix];
        let sums = bytes.chunks_exact(entry.panel_bytes.max(1)).map(xxh3_64);
        entry.sums[panels.clone()].iter_mut().zip(sums).for_each(|(to, sum)| *to = sum);
        let at = entry.offset + (panels.start * entry.panel_bytes) as u64;
        write_at(self.file.as_file(), at, bytes)
    }

    /// Writes the index and gives the file its name.
    ///
    /// # Errors
    /// When the disk fails, which leaves no file.
    pub fn finish(self, path: &Path) -> Result<(), PanelError> {
        let bytes = self.index.bytes();
        let head = FileHead { offset: self.at, len: bytes.len() as u64, sum: xxh3_64(&bytes) };
        let file = self.file.as_file();
        let written = write_at(file, self.at, &bytes).and_then(|()| write_at(file, 0, &head.bytes()));
        // The head says that all before it is there: so it is on disk before the file has its name.
        written.and_then(|()| file.sync_all()).map_err(|e| self.failed(e))?;
        self.file.persist(path).map_err(|e| PanelError::io("write", path, e.error))?;
        sync_folder(path.parent().unwrap_or(Path::new("."))).map_err(|e| PanelError::io("write", path, e))
    }

    fn failed(&self, e: io::Error) -> PanelError {
        PanelError::io("write", self.file.path(), e)
    }
}

/// Writes, and has the page cache forget what was written: it is read past it later.
fn write_at(mut file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)?;
    if bytes.len() >= WINDOW / 2 {
        file.sync_data()?;
        forget(file, at..at + bytes.len() as u64);
    }
    Ok(())
}
