//! A file that gets its name when it is whole: written under a random name beside the final one, which is new (a link
//! or a file that waits under a guessed name is never opened), and removed whenever it is not finished.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use lamina_base::files::{open_regular, sync_folder};
use tempfile::{Builder, NamedTempFile};

use crate::error::{FormatError, Result};

/// The ending of the names.
const ENDING: &str = ".partial";
/// Bytes of the final name that the temporary one repeats; file systems allow 255 in all.
const MOST_OF_NAME: usize = 200;
/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;

/// A file on its way to `path`.
pub(super) struct Partial {
    path: PathBuf,
    temporary: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl Partial {
    /// Creates the file, and holds a lock on it that tells other processes of it.
    pub fn create(path: PathBuf) -> Result<Partial> {
        let folder = folder(&path);
        let failed = |e| FormatError::io("create", &path, e);
        let file = permitted(Builder::new().prefix(&stem(&path)).suffix(ENDING)).tempfile_in(folder);
        let file = file.map_err(failed)?;
        file.as_file().lock().map_err(failed)?;
        if is_being_written(&path, file.path()) {
            let busy =
                io::Error::new(io::ErrorKind::ResourceBusy, "another process is writing this file now");
            return Err(failed(busy));
        }
        let temporary = file.path().to_owned();
        Ok(Partial { path, temporary, file: BufWriter::with_capacity(BUFFER, file) })
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| FormatError::io("write", &self.temporary, e))
    }

    /// All bytes on the disk: what a rename publishes must survive a loss of power.
    fn sync(self) -> Result<Whole> {
        let failed = |e| FormatError::io("write", &self.temporary, e);
        let file = self.file.into_inner().map_err(|e| failed(e.into_error()))?;
        file.as_file().sync_all().map_err(failed)?;
        Ok(Whole { path: self.path, file })
    }
}

/// A complete file that has no name yet.
struct Whole {
    path: PathBuf,
    file: NamedTempFile,
}

/// Completes all files, and only then gives them their names. Where one cannot have its name, none keeps one.
pub(super) fn publish(files: Vec<Partial>) -> Result<Vec<PathBuf>> {
    let whole: Vec<Whole> = files.into_iter().map(Partial::sync).collect::<Result<_>>()?;
    let mut named: Vec<PathBuf> = Vec::with_capacity(whole.len());
    for Whole { path, file } in whole {
        if let Err(e) = file.persist(&path) {
            named.iter().for_each(|path| drop(fs::remove_file(path)));
            return Err(FormatError::io("rename", &path, e.error));
        }
        named.push(path);
    }
    // Not every file system can flush a folder; the files themselves are safe.
    if let Some(folder) = named.first().map(|path| folder(path)) {
        let _ = sync_folder(folder);
    }
    Ok(named)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What the temporary names of a file begin with.
fn stem(path: &Path) -> OsString {
    let name = path.file_name().unwrap_or_default();
    let mut stem = cut(name).to_owned();
    stem.push(".");
    stem
}

#[cfg(unix)]
fn cut(name: &OsStr) -> &OsStr {
    use std::os::unix::ffi::OsStrExt;
    OsStr::from_bytes(&name.as_bytes()[..name.len().min(MOST_OF_NAME)])
}

#[cfg(not(unix))]
fn cut(name: &OsStr) -> &OsStr {
    if name.len() > MOST_OF_NAME { OsStr::new("model") } else { name }
}

/// A model is no secret: the permissions of any new file, less the user's mask.
#[cfg(unix)]
fn permitted<'a, 'b>(builder: &'b mut Builder<'a, 'a>) -> &'b mut Builder<'a, 'a> {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(fs::Permissions::from_mode(0o666))
}

#[cfg(not(unix))]
fn permitted<'a, 'b>(builder: &'b mut Builder<'a, 'a>) -> &'b mut Builder<'a, 'a> {
    builder
}

/// Whether another process holds a temporary file for `path`. What a killed process left behind is not locked.
fn is_being_written(path: &Path, own: &Path) -> bool {
    let stem = stem(path);
    let begins = |name: &OsStr| name.as_encoded_bytes().starts_with(stem.as_encoded_bytes());
    let ends = |name: &OsStr| name.as_encoded_bytes().ends_with(ENDING.as_bytes());
    let entries = fs::read_dir(folder(path)).into_iter().flatten().flatten();
    let others = entries.filter(|entry| begins(&entry.file_name()) && ends(&entry.file_name()));
    others.filter(|entry| Some(entry.file_name().as_os_str()) != own.file_name()).any(|entry| {
        let regular = entry.file_type().is_ok_and(|kind| kind.is_file());
        let locked = |file: File| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock));
        regular && open_regular(&entry.path()).is_ok_and(locked)
    })
}
