//! Files that are read past the page cache: what is read once per step would only wash out what is used again.

use crate::buffer::{BLOCK, PageBuffer};
use lamina_base::files::open_regular;
use std::{
    fs::File,
    io,
    ops::Range,
    path::{Path, PathBuf},
};

/// A file for large aligned reads. Where its file system refuses direct reads, it is read through the page cache, and the
/// system is told that nothing of it is needed again.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    path: PathBuf,
    direct: bool,
}

impl DirectFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// When it cannot be opened or read.
    pub fn open(path: &Path) -> io::Result<DirectFile> {
        let mut file = DirectFile::buffered(path)?;
        // Some file systems refuse the flag, others the first read.
        let read = |()| file.read_some(0, PageBuffer::new(BLOCK).bytes_mut());
        match system::set_direct(&file.file, true).and_then(read) {
            Ok(_) => file.direct = true,
            Err(_) => _ = system::set_direct(&file.file, false),
        }
        Ok(file)
    }

    /// Opens the file at `path` for reads through the page cache.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn buffered(path: &Path) -> io::Result<DirectFile> {
        Ok(DirectFile { file: open_regular(path)?, path: path.to_owned(), direct: false })
    }

    /// A file of `len` bytes without a name on the disk of `folder`: it is gone with the process, however that ends.
    ///
    /// # Errors
    /// When the disk has no room, or the folder cannot be written.
    pub fn nameless(folder: &Path, len: u64) -> io::Result<DirectFile> {
        let file = tempfile::tempfile_in(folder)?;
        reserve(&file, len)?;
        let mut file = DirectFile { file, path: folder.to_owned(), direct: false };
        // Some file systems refuse the flag, others the first write.
        let written = |()| file.write_blocks(0, PageBuffer::new(BLOCK).bytes());
        match system::set_direct(&file.file, true).and_then(written) {
            Ok(()) => file.direct = true,
            Err(_) => _ = system::set_direct(&file.file, false),
        }
        Ok(file)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True where reads go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Length in bytes.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn length(&self) -> io::Result<u64> {
        self.file.metadata().map(|m| m.len())
    }

    /// Fills `out` with the bytes from `offset` on. Offset, length and the memory of `out` are multiples of [`BLOCK`].
    ///
    /// # Errors
    /// When the file ends before, or the system refuses.
    pub fn read_blocks(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < out.len() {
            match self.read_some(offset + done as u64, &mut out[done..]) {
                Ok(0) => {
                    let at = offset + done as u64;
                    let what = format!("the file ends at byte {at}, {} bytes early", out.len() - done);
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
                }
                // A signal may end a read inside a block, and the next one has to begin at a block.
                Ok(n) => done += if done + n == out.len() { n } else { n / BLOCK * BLOCK },
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if !self.direct {
            system::forget(&self.file, offset..offset + out.len() as u64);
        }
        Ok(())
    }

    /// Writes `bytes` from `offset` on. Offset, length and the memory of `bytes` are multiples of [`BLOCK`].
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write_blocks(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match self.write_some(offset + done as u64, &bytes[done..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                // As with reads: the next one has to begin at a block.
                Ok(n) => done += if done + n == bytes.len() { n } else { n / BLOCK * BLOCK },
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    #[cfg(unix)]
    fn write_some(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::write_at(&self.file, bytes, offset)
    }

    #[cfg(windows)]
    fn write_some(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_write(&self.file, bytes, offset)
    }

    #[cfg(unix)]
    fn read_some(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.file, out, offset)
    }

    #[cfg(windows)]
    fn read_some(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(&self.file, out, offset)
    }
}

#[cfg(unix)]
impl std::os::fd::AsRawFd for DirectFile {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.file.as_raw_fd()
    }
}

/// Tells the system that a range of `file` is not needed in the page cache. What has not been written to disk stays there.
pub(crate) fn forget(file: &File, range: Range<u64>) {
    system::forget(file, range);
}

/// Gives `file` its whole length, so that a disk that is too full is known before anything is written.
///
/// # Errors
/// When the disk has no room.
pub(crate) fn reserve(file: &File, len: u64) -> io::Result<()> {
    system::reserve(file, len)
}

/// Bytes that are free on the file system of `path`, and all that it has; none where the system does not say.
pub fn disk_space(path: &Path) -> Option<(u64, u64)> {
    system::disk_space(path)
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate, fcntl_getfl, fcntl_setfl};
    use std::{fs::File, io, num::NonZeroU64, ops::Range, path::Path};

    pub fn set_direct(file: &File, direct: bool) -> io::Result<()> {
        let mut flags = fcntl_getfl(file)?;
        flags.set(OFlags::DIRECT, direct);
        Ok(fcntl_setfl(file, flags)?)
    }

    pub fn forget(file: &File, range: Range<u64>) {
        if let Some(len) = NonZeroU64::new(range.end - range.start) {
            // Only a hint.
            let _ = fadvise(file, range.start, Some(len), Advice::DontNeed);
        }
    }

    pub fn disk_space(path: &Path) -> Option<(u64, u64)> {
        let of = rustix::fs::statvfs(path).ok()?;
        Some((of.f_bavail.checked_mul(of.f_frsize)?, of.f_blocks.checked_mul(of.f_frsize)?))
    }

    pub fn reserve(file: &File, len: u64) -> io::Result<()> {
        match fallocate(file, FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => file.set_len(len),
            Err(e) => Err(e.into()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::{fs::File, io, ops::Range, path::Path};

    pub fn set_direct(_: &File, _: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn forget(_: &File, _: Range<u64>) {}

    pub fn disk_space(_: &Path) -> Option<(u64, u64)> {
        None
    }

    pub fn reserve(file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }
}
