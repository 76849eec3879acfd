//! A file of the pages of cache layers that do not stay in memory: equal pages of each layer, one after the other, with a
//! checksum of each in memory.

use crate::{
    buffer::BLOCK,
    direct::DirectFile,
    error::{CachePageError, NoRoom},
};
use std::{
    io,
    ops::Range,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};
use xxhash_rust::xxh3::xxh3_128;

/// What holds the bytes of pages: a file, or in tests one that is worse than it should be.
pub trait BlockFile: Send + Sync {
    /// Fills `out` with the bytes from `offset` on; both, and the memory of `out`, are multiples of [`BLOCK`].
    ///
    /// # Errors
    /// When they cannot be read.
    fn read_blocks(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes `bytes` from `offset` on, in multiples of [`BLOCK`] likewise.
    ///
    /// # Errors
    /// When they cannot be written.
    fn write_blocks(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

impl BlockFile for DirectFile {
    fn read_blocks(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        DirectFile::read_blocks(self, offset, out)
    }

    fn write_blocks(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        DirectFile::write_blocks(self, offset, bytes)
    }
}

/// The pages of a layer in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageArray {
    /// The layer of the cache, for messages.
    pub layer: usize,
    /// Bytes of a page, in whole blocks.
    pub stride: usize,
    /// Pages.
    pub pages: usize,
}

impl PageArray {
    /// Bytes of all pages.
    pub fn bytes(&self) -> usize {
        self.stride * self.pages
    }
}

/// What is known of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageMark {
    /// Nothing was written to it yet.
    Unwritten,
    /// What was written has this checksum.
    Written(u128),
    /// It could not be written.
    Lost,
}

/// The file. It belongs to the process, and is gone with it.
pub struct CacheFile {
    file: Box<dyn BlockFile>,
    arrays: Vec<PageArray>,
    /// Where each array begins.
    starts: Vec<u64>,
    marks: Vec<Mutex<Vec<PageMark>>>,
}

impl CacheFile {
    /// A file for `arrays` on the disk of `folder`, in its full length.
    ///
    /// # Errors
    /// When the disk has no room, or the folder cannot be made or written.
    pub fn create(folder: &Path, arrays: Vec<PageArray>) -> Result<CacheFile, NoRoom> {
        let bytes = arrays.iter().map(|a| a.bytes() as u64).sum::<u64>().max(BLOCK as u64);
        let made = std::fs::create_dir_all(folder).and_then(|()| DirectFile::nameless(folder, bytes));
        let no_room = |source| NoRoom {
            what: "the layers of the cache that lie on disk (kv=disk) take",
            folder: folder.into(),
            bytes,
            source,
            advice: "free space, ask for a smaller context or less kv_memory, or name another folder with panel_cache",
        };
        Ok(CacheFile::on(Box::new(made.map_err(no_room)?), arrays))
    }

    /// The pages of `arrays` in a file that has room for them.
    pub fn on(file: Box<dyn BlockFile>, arrays: Vec<PageArray>) -> CacheFile {
        let mut end = 0;
        let start = |array: &PageArray| {
            end += array.bytes() as u64;
            end - array.bytes() as u64
        };
        let starts = arrays.iter().map(start).collect();
        let marks = arrays.iter().map(|a| Mutex::new(vec![PageMark::Unwritten; a.pages])).collect();
        CacheFile { file, arrays, starts, marks }
    }

    /// The arrays, in the order of the file.
    pub fn arrays(&self) -> &[PageArray] {
        &self.arrays
    }

    fn marks(&self, array: usize) -> MutexGuard<'_, Vec<PageMark>> {
        self.marks[array].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads pages of an array, which ascend, to their places in memory that begins with page `first`, and returns how many
    /// bytes. Those that nobody has written become zeros.
    ///
    /// # Errors
    /// When one cannot be read, is not what was written, or could not be written.
    pub fn read(
        &self,
        array: usize,
        (first, pages): (u32, &[u32]),
        out: &mut [u8],
    ) -> Result<u64, CachePageError> {
        let stride = self.arrays[array].stride;
        let marks: Vec<PageMark> = {
            let all = self.marks(array);
            pages.iter().map(|&page| all[page as usize]).collect()
        };
        let mut written = vec![];
        for (&page, mark) in pages.iter().zip(&marks) {
            match mark {
                PageMark::Lost => return Err(self.lost(array, page)),
                PageMark::Unwritten => out[place(page - first, stride)].fill(0),
                PageMark::Written(_) => written.push(page),
            }
        }
        for run in runs(&written) {
            let memory = place(run.start - first, stride).start..place(run.end - first, stride).start;
            let read = self.file.read_blocks(self.offset(array, run.start), &mut out[memory]);
            read.map_err(|source| self.failed("read", array, run.start, source))?;
        }
        for (&page, mark) in pages.iter().zip(&marks) {
            let sum = || PageMark::Written(xxh3_128(&out[place(page - first, stride)]));
            if matches!(mark, PageMark::Written(_)) && sum() != *mark {
                return Err(CachePageError::Damaged { layer: self.arrays[array].layer, page });
            }
        }
        Ok((written.len() * stride) as u64)
    }

    /// Writes pages of an array, which ascend, from their places in memory that begins with page `first`, and returns how many
    /// bytes. Those that cannot be written are lost: whoever reads them is told.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn write(
        &self,
        array: usize,
        (first, pages): (u32, &[u32]),
        bytes: &[u8],
    ) -> Result<u64, CachePageError> {
        let stride = self.arrays[array].stride;
        let mut first_error = None;
        for run in runs(pages) {
            let memory = place(run.start - first, stride).start..place(run.end - first, stride).start;
            let written = self.file.write_blocks(self.offset(array, run.start), &bytes[memory]);
            let sum = |page| match written {
                Ok(()) => PageMark::Written(xxh3_128(&bytes[place(page - first, stride)])),
                Err(_) => PageMark::Lost,
            };
            let sums: Vec<PageMark> = run.clone().map(sum).collect();
            self.marks(array)[run.start as usize..run.end as usize].copy_from_slice(&sums);
            if let Err(source) = written {
                first_error.get_or_insert(self.failed("written", array, run.start, source));
            }
        }
        first_error.map_or(Ok((pages.len() * stride) as u64), Err)
    }

    /// Where a page begins in the file.
    fn offset(&self, array: usize, page: u32) -> u64 {
        self.starts[array] + u64::from(page) * self.arrays[array].stride as u64
    }

    fn lost(&self, array: usize, page: u32) -> CachePageError {
        CachePageError::Lost { layer: self.arrays[array].layer, page }
    }

    fn failed(&self, what: &'static str, array: usize, page: u32, source: io::Error) -> CachePageError {
        CachePageError::Io { what, layer: self.arrays[array].layer, page, source }
    }
}

/// Where a page lies in the memory of its array.
fn place(page: u32, stride: usize) -> Range<usize> {
    page as usize * stride..(page as usize + 1) * stride
}

/// Pages that follow one another, of those that ascend.
fn runs(pages: &[u32]) -> impl Iterator<Item = Range<u32>> {
    pages.chunk_by(|a, b| a + 1 == *b).map(|run| run[0]..run[run.len() - 1] + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamina_base::PageBuffer;
    use std::sync::Arc;

    /// Memory in the place of a file, which may refuse writes.
    #[derive(Default)]
    struct MemoryFile {
        bytes: Mutex<Vec<u8>>,
        refuses: bool,
    }

    impl BlockFile for Arc<MemoryFile> {
        fn read_blocks(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            let bytes = self.bytes.lock().expect("whole");
            out.copy_from_slice(&bytes[offset as usize..offset as usize + out.len()]);
            Ok(())
        }

        fn write_blocks(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            if self.refuses {
                return Err(io::Error::other("no room"));
            }
            self.bytes.lock().expect("whole")[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }
    }

    fn arrays() -> Vec<PageArray> {
        vec![
            PageArray { layer: 3, stride: BLOCK, pages: 9 },
            PageArray { layer: 5, stride: 2 * BLOCK, pages: 4 },
        ]
    }

    fn memory(refuses: bool) -> Arc<MemoryFile> {
        Arc::new(MemoryFile { bytes: vec![0; 17 * BLOCK].into(), refuses })
    }

    /// Memory of an array in which every page has a byte of its own.
    fn filled(array: &PageArray, seed: u8) -> PageBuffer {
        let mut buffer = PageBuffer::new(array.bytes());
        let pages = buffer.bytes_mut().chunks_exact_mut(array.stride).enumerate();
        pages.for_each(|(i, page)| page.fill(seed + i as u8));
        buffer
    }

    #[test]
    fn pages_come_back_as_they_were_written_and_no_others() {
        let folder = tempfile::tempdir().expect("a folder");
        for file in [
            CacheFile::create(folder.path(), arrays()).expect("made"),
            CacheFile::on(Box::new(memory(false)), arrays()),
        ] {
            for (i, array) in arrays().iter().enumerate() {
                let from = filled(array, 10 * (i as u8 + 1));
                assert_eq!(file.write(i, (0, &[0, 2, 3]), from.bytes()).ok(), Some(3 * array.stride as u64));
                let mut to = filled(array, 100);
                assert_eq!(file.read(i, (0, &[1, 2, 3]), to.bytes_mut()).ok(), Some(2 * array.stride as u64));
                let first = |page: usize| to.bytes()[page * array.stride];
                // Page 1 was never written, and page 0 was not asked for.
                let seed = 10 * (i as u8 + 1);
                assert_eq!([0, 1, 2, 3].map(first), [100, 0, seed + 2, seed + 3]);
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0, "the file has no name");
    }

    #[test]
    fn a_page_that_changed_is_an_error_that_names_it() {
        let memory = memory(false);
        let file = CacheFile::on(Box::new(memory.clone()), arrays());
        let mut buffer = filled(&arrays()[1], 1);
        file.write(1, (0, &[0, 1, 2]), buffer.bytes()).expect("written");
        // One bit of page 2 of the second array.
        memory.bytes.lock().expect("whole")[(9 + 2 * 2) * BLOCK + 77] ^= 1;
        file.read(1, (0, &[0, 1]), buffer.bytes_mut()).expect("these are whole");
        let error = file.read(1, (0, &[1, 2]), buffer.bytes_mut()).expect_err("damaged").to_string();
        assert!(error.contains("page 2 of layer 5") && error.contains("checksum"), "{error}");
        file.write(1, (0, &[2]), buffer.bytes()).expect("written anew");
        file.read(1, (0, &[1, 2]), buffer.bytes_mut()).expect("whole again");
    }

    #[test]
    fn what_cannot_be_written_is_lost_until_it_is_written_again() {
        let file = CacheFile::on(Box::new(memory(true)), arrays());
        let mut buffer = filled(&arrays()[0], 1);
        let error = file.write(0, (0, &[4]), buffer.bytes()).expect_err("refused").to_string();
        assert!(error.contains("no room") && error.contains("layer 3"), "{error}");
        assert!(matches!(
            file.read(0, (0, &[3, 4]), buffer.bytes_mut()),
            Err(CachePageError::Lost { page: 4, .. })
        ));
        file.read(0, (0, &[3]), buffer.bytes_mut()).expect("nobody has written it");
    }

    #[test]
    fn a_disk_without_room_is_an_error_before_anything_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let huge = PageArray { layer: 0, stride: 1 << 40, pages: 1 << 20 };
        let error =
            CacheFile::create(folder.path(), vec![huge]).err().expect("no disk is so large").to_string();
        assert!(error.contains("kv=disk") && error.contains("cannot be had"), "{error}");
    }

    #[test]
    fn runs_are_pages_that_follow_one_another() {
        let of = |pages: &[u32]| runs(pages).collect::<Vec<_>>();
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[0, 1, 2, 5, 7, 8]), [0..3, 5..6, 7..9]);
    }
}
