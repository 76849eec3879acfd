//! Files of the user that are replaced whole: the old file or the new one is there, and nothing beside it, whenever the
//! writer is stopped.

use lamina_base::files::sync_folder;
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use tempfile::TempPath;

/// How the names of unfinished files begin.
pub(crate) const UNFINISHED: &str = ".unfinished-";
/// Unfinished files of processes that were killed are removed when they are older than this.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A file on its way to a path. Dropped before [`WholeFile::finish`], it leaves nothing.
pub struct WholeFile {
    file: File,
    /// Its name until it is whole, on systems and file systems that have no files without one.
    temporary: Option<TempPath>,
    path: PathBuf,
}

impl WholeFile {
    /// A file that will be at `path`, in a folder that is there.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn create(path: &Path) -> io::Result<WholeFile> {
        let (folder, path, prefix) = (folder_of(path), path.to_owned(), unfinished(path));
        remove_abandoned(folder, &prefix.to_string_lossy());
        if let Ok(file) = system::nameless(folder) {
            return Ok(WholeFile { file, temporary: None, path });
        }
        let (file, temporary) = tempfile::Builder::new().prefix(&prefix).tempfile_in(folder)?.into_parts();
        Ok(WholeFile { file, temporary: Some(temporary), path })
    }

    /// Has all bytes on disk, and then gives the file its name, in the place of another one.
    ///
    /// # Errors
    /// When the disk refuses; what was there before stays.
    pub fn finish(self) -> io::Result<()> {
        let WholeFile { file, temporary, path } = self;
        file.sync_all()?;
        match temporary {
            Some(temporary) => temporary.persist(&path).map_err(|e| e.error)?,
            None => name_over(&file, &path)?,
        }
        // Not every file system can flush a folder; the file itself is safe.
        let _ = sync_folder(folder_of(&path));
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Gives a file without a name the name `path`. Where another file has it, the new one is named beside it for a moment:
/// names are only replaced by renaming.
fn name_over(file: &File, path: &Path) -> io::Result<()> {
    match system::name(file, path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        named => return named,
    }
    static NAMED: AtomicU64 = AtomicU64::new(0);
    let mut beside = unfinished(path);
    beside.push(format!("{}-{}", std::process::id(), NAMED.fetch_add(1, Relaxed)));
    let beside = path.with_file_name(beside);
    // Of a process of this number that was killed in that moment.
    let _ = fs::remove_file(&beside);
    system::name(file, &beside)?;
    fs::rename(&beside, path).inspect_err(|_| drop(fs::remove_file(&beside)))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// How the name of the file begins that will be at `path`.
fn unfinished(path: &Path) -> OsString {
    let mut name = OsString::from(UNFINISHED);
    name.push(path.file_name().unwrap_or(OsStr::new("file")));
    name.push("-");
    name
}

/// Gives the file at `path` other bytes: a reader sees the old file or the new one, and nothing else is left. Nobody waits
/// for the disk: what a power failure leaves is for readers to find.
///
/// # Errors
/// When the folder cannot be written, or the disk refuses.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder_of(path))?;
    file.write_all(bytes)?;
    file.persist(path).map(drop).map_err(|e| e.error)
}

/// Removes files of a folder whose names begin with `prefix` and that nobody has written to for an hour.
pub(crate) fn remove_abandoned(folder: &Path, prefix: &str) {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    for file in files.filter(|f| f.file_name().to_string_lossy().starts_with(prefix)) {
        let age = file.metadata().and_then(|m| m.modified()).map(|at| at.elapsed().unwrap_or_default());
        if age.is_ok_and(|age| age > ABANDONED) {
            let _ = fs::remove_file(file.path());
        }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
    use std::{
        fs::File,
        io,
        os::fd::{AsRawFd, RawFd},
        path::{Path, PathBuf},
    };

    /// A file without a name, which can have one later.
    pub fn nameless(folder: &Path) -> io::Result<File> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = File::from(open(folder, flags, Mode::RUSR | Mode::WUSR)?);
        // By which it is named.
        link_of(file.as_raw_fd()).symlink_metadata()?;
        Ok(file)
    }

    pub fn name(file: &File, path: &Path) -> io::Result<()> {
        Ok(linkat(CWD, link_of(file.as_raw_fd()), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
    }

    fn link_of(file: RawFd) -> PathBuf {
        format!("/proc/self/fd/{file}").into()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::{fs::File, io, path::Path};

    pub fn nameless(_: &Path) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn name(_: &File, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_file_stays_until_the_new_one_is_whole() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("state");
        for text in ["first", "second"] {
            let mut file = WholeFile::create(&path)?;
            file.write_all(text.as_bytes())?;
            let before = fs::read_to_string(&path).ok();
            assert_eq!(before.as_deref(), (text == "second").then_some("first"));
            file.finish()?;
            assert_eq!(fs::read_to_string(&path)?, text);
        }
        WholeFile::create(&path)?.write_all(b"third")?;
        assert_eq!(fs::read_to_string(&path)?, "second");
        assert_eq!(fs::read_dir(folder.path())?.count(), 1, "nothing is left beside");
        assert!(WholeFile::create(&folder.path().join("none/state")).is_err());
        Ok(())
    }

    #[test]
    fn what_killed_writers_left_goes_after_an_hour() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let (old, new) = (folder.path().join(".unfinished-a"), folder.path().join(".unfinished-b"));
        fs::write(&old, "")?;
        fs::write(&new, "")?;
        let past = std::time::SystemTime::now() - 2 * ABANDONED;
        File::options().append(true).open(&old)?.set_modified(past)?;
        remove_abandoned(folder.path(), ".unfinished-");
        assert!(!old.exists() && new.exists());
        Ok(())
    }
}
