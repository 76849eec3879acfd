//! Read-only memory maps of model files: the only unsafe code of this crate.
#![allow(unsafe_code)]

use crate::{
    error::{FormatError, Result},
    stamp::{self, Stamp},
};
use lamina_base::Bytes;
#[cfg(unix)]
use memmap2::UncheckedAdvice;
use std::{
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A whole file, mapped shared and read-only. Lives as long as one of the [`Bytes`] made from it.
#[derive(Debug)]
pub struct Mapping {
    map: memmap2::Mmap,
    file: File,
    /// Of the file when it was mapped.
    stamp: Stamp,
    path: PathBuf,
}

/// Owner of the bytes of a mapping; a type of its own because `Arc` has an `AsRef` already.
struct MappedBytes(Arc<Mapping>);

impl AsRef<[u8]> for MappedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0.map
    }
}

impl Mapping {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// When the path is no regular file (a pipe would block, a folder has no bytes), is empty, or cannot be mapped.
    pub fn open(path: &Path) -> Result<Arc<Mapping>> {
        let meta = std::fs::metadata(path).map_err(|e| FormatError::io("open", path, e))?;
        if !meta.is_file() {
            return Err(FormatError::not_a_model(
                path,
                "is no regular file",
                "give the path of a model file",
            ));
        }
        if meta.len() == 0 {
            let advice = "the download was probably cut off: fetch the file again";
            return Err(FormatError::not_a_model(path, "the file is empty", advice));
        }
        let file = File::open(path).map_err(|e| FormatError::io("open", path, e))?;
        // SAFETY: the map is read-only, so nothing in this process writes through it. That no other process writes to the
        // file or shortens it while the map is read cannot be checked: a write would be a race by the rules of the
        // language, a read behind a new end faults. So a model is loaded by `read_at`, and only headers are read here.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|e| FormatError::io("map", path, e))?;
        let stamp = Stamp::of(&file).map_err(|e| FormatError::io("open", path, e))?;
        Ok(Arc::new(Mapping { map, file, stamp, path: path.to_owned() }))
    }

    /// The file that is mapped.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file in bytes.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// False always, since an empty file is refused; here because a length asks for it.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// All bytes of the file; they keep the mapping alive.
    pub fn bytes(self: &Arc<Self>) -> Bytes {
        Bytes::new(MappedBytes(self.clone()))
    }

    /// What tells this state of the file from others.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Fills `out` with the bytes from `offset` on, read from the file and not from the map.
    ///
    /// # Errors
    /// When the file was written to or shortened since it was mapped, or cannot be read.
    pub fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        let read = stamp::read_at(&self.file, offset as u64, out);
        // After the read: what was written before it has left its time.
        let now = Stamp::of(&self.file).map_err(|e| FormatError::io("read", &self.path, e))?;
        if now != self.stamp {
            return Err(FormatError::Changed { file: self.path.clone() });
        }
        read.map_err(|e| FormatError::io("read", &self.path, e))
    }

    /// Where `bytes` lie inside this file, or `None` when they are not part of it.
    pub fn range_of(&self, bytes: &[u8]) -> Option<Range<usize>> {
        let start = (bytes.as_ptr() as usize).checked_sub(self.map.as_ptr() as usize)?;
        let end = start.checked_add(bytes.len())?;
        (end <= self.map.len()).then_some(start..end)
    }

    /// Tells the system that `range` will not be read again soon, so that its pages stop counting as this process's
    /// memory. Reading them later is allowed and fetches them again from the file. Only whole pages inside the range
    /// are given back, so neighbours stay. Does nothing outside unix, or when the system refuses: it is a hint.
    pub fn release(&self, range: Range<usize>) {
        // A multiple of every page size in use (4, 16 and 64 KiB): asking the system for its own would save nothing.
        const PAGE: usize = 1 << 16;
        let start = range.start.min(self.map.len()).next_multiple_of(PAGE);
        let end = range.end.min(self.map.len()) / PAGE * PAGE;
        if start < end {
            self.dont_need(start, end - start);
        }
    }

    #[cfg(unix)]
    fn dont_need(&self, offset: usize, len: usize) {
        // SAFETY: on a shared mapping of a file that nobody in this process writes to, dropping pages loses nothing:
        // the next read faults them in from the file with the same content. `offset..offset + len` is inside the map.
        let _hint = unsafe { self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, offset, len) };
    }

    #[cfg(not(unix))]
    fn dont_need(&self, _offset: usize, _len: usize) {}

    /// Asks the system to read `range` ahead. Does nothing outside unix, or when the system refuses: it is a hint.
    pub fn prefetch(&self, range: Range<usize>) {
        let end = range.end.min(self.map.len());
        #[cfg(unix)]
        if range.start < end {
            let _hint = self.map.advise_range(memmap2::Advice::WillNeed, range.start, end - range.start);
        }
        #[cfg(not(unix))]
        let _ = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_pages_read_the_same_again() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("data");
        let content: Vec<u8> = (0..1_000_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
        std::fs::write(&path, &content).expect("write");
        let map = Mapping::open(&path).expect("map");
        let bytes = map.bytes();
        let part = bytes.slice(5_000..900_000).expect("inside");
        assert_eq!(map.range_of(&part), Some(5_000..900_000));
        assert_eq!(map.range_of(&content), None);
        assert_eq!(&*part, &content[5_000..900_000]);
        map.prefetch(5_000..900_000);
        map.release(5_000..900_000);
        map.release(0..usize::MAX);
        map.prefetch(900_000..usize::MAX);
        assert_eq!(&*bytes, content);
    }

    /// Pages of files that this process holds, in bytes; those of a file system in memory count as shared ones.
    #[cfg(target_os = "linux")]
    fn resident_file_pages() -> Option<usize> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let lines = status.lines().filter(|l| l.starts_with("RssFile:") || l.starts_with("RssShmem:"));
        lines.map(|l| l.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kb| kb * 1024)).sum()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn released_pages_stop_counting_as_ours() {
        const SIZE: usize = 64 << 20;
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("data");
        std::fs::write(&path, vec![1; SIZE]).expect("write");
        let map = Mapping::open(&path).expect("map");
        assert_eq!(map.bytes().iter().map(|&b| usize::from(b)).sum::<usize>(), SIZE);
        let Some(before) = resident_file_pages() else { return };
        map.release(0..SIZE);
        let after = resident_file_pages().expect("read before");
        // All of it goes; half is asked for because other tests of this process map files too.
        assert!(before > SIZE && after + SIZE / 2 < before, "{before} -> {after}");
    }

    #[test]
    fn a_file_that_changes_is_an_error_where_it_is_read() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("data");
        let open = || {
            std::fs::write(&path, vec![7; 10_000]).expect("write");
            // Times of files are as fine as the system's ticks.
            let past = std::time::SystemTime::now() - std::time::Duration::from_secs(9);
            File::options().write(true).open(&path).expect("opens").set_modified(past).expect("sets");
            Mapping::open(&path).expect("map")
        };
        let mut out = [0; 100];
        let map = open();
        map.read_at(9_900, &mut out).expect("reads");
        assert_eq!(out, [7; 100]);
        assert!(map.read_at(9_901, &mut out).is_err(), "behind the end");
        // Another file of the same name changes nothing.
        let other = dir.path().join("other");
        std::fs::write(&other, [1; 50]).expect("write");
        std::fs::rename(&other, &path).expect("rename");
        map.read_at(0, &mut out).expect("reads the old one");
        let changes: [fn(&File); 2] = [
            |file| file.set_len(64).expect("shortens"),
            |mut file| std::io::Write::write_all(&mut file, &[9; 300]).expect("writes"),
        ];
        for change in changes {
            let map = open();
            change(&File::options().write(true).open(&path).expect("opens"));
            for offset in [0, 5_000] {
                let error = map.read_at(offset, &mut out).expect_err("has changed");
                assert!(matches!(error, FormatError::Changed { .. }), "{error}");
            }
        }
    }

    #[test]
    fn folders_and_empty_files_are_refused() {
        let dir = tempfile::tempdir().expect("temp dir");
        let empty = dir.path().join("empty.gguf");
        std::fs::write(&empty, b"").expect("write");
        assert!(
            Mapping::open(&empty).expect_err("empty").to_string().contains("empty.gguf: the file is empty")
        );
        assert!(Mapping::open(dir.path()).expect_err("folder").to_string().contains("no regular file"));
    }
}
