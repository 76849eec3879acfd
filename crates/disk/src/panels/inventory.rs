//! Whose panels a folder keeps, for whoever wants the room.

use super::{
    folder::{ENDING, LOCK},
    open::{PanelAccess, PanelFile},
};
use crate::{error::PanelError, whole_file::replace_file};
use lamina_base::files::{open_lock, read_text};
use std::{
    fs::{self, TryLockError},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The file that names the files of the model, one a line.
const SOURCES: &str = "model";
/// Bytes that are read at once.
const WINDOW: usize = 8 << 20;

/// The panels of one model.
#[derive(Clone, Debug)]
pub struct KeptPanels {
    /// Their folder.
    pub path: PathBuf,
    /// Files of the model, as far as they are known.
    pub sources: Vec<PathBuf>,
    /// Panel files, and the bytes of all.
    pub files: Vec<PathBuf>,
    /// See `files`.
    pub bytes: u64,
    /// When the model was last loaded.
    pub last_use: SystemTime,
}

/// Writes down whose panels the folder at `path` keeps, and that they are used now. Only a hint: nothing is told where the
/// disk refuses.
pub fn note_sources<'a>(path: &Path, sources: impl IntoIterator<Item = &'a Path>) {
    let absolute = |p: &Path| fs::canonicalize(p).unwrap_or_else(|_| p.to_owned()).display().to_string();
    let lines: Vec<String> = sources.into_iter().map(absolute).collect();
    let _ = replace_file(&path.join(SOURCES), lines.join("\n").as_bytes());
}

/// Whose panels are kept below `root`; those that were not used for longest come first.
pub fn kept_panels(root: &Path) -> Vec<KeptPanels> {
    let folders = fs::read_dir(root.join("panels")).into_iter().flatten().flatten().map(|f| f.path());
    let mut all: Vec<KeptPanels> = folders.filter(|path| path.is_dir()).map(KeptPanels::of).collect();
    all.sort_by_key(|kept| kept.last_use);
    all
}

impl KeptPanels {
    fn of(path: PathBuf) -> KeptPanels {
        let inside = fs::read_dir(&path).into_iter().flatten().flatten().map(|f| f.path());
        let files: Vec<PathBuf> = inside.filter(|p| p.extension().is_some_and(|e| e == ENDING)).collect();
        let sources = read_text(&path.join(SOURCES)).unwrap_or_default();
        let changed = |p: &PathBuf| fs::metadata(p).and_then(|about| about.modified()).ok();
        let times = files.iter().chain([&path.join(SOURCES)]).filter_map(changed).max();
        KeptPanels {
            sources: sources.lines().map(PathBuf::from).collect(),
            bytes: files.iter().filter_map(|p| fs::metadata(p).ok()).map(|about| about.len()).sum(),
            last_use: times.unwrap_or(SystemTime::UNIX_EPOCH),
            files,
            path,
        }
    }

    /// True where a file of the model is gone: nobody will ask for these panels again.
    pub fn is_orphaned(&self) -> bool {
        self.sources.iter().any(|source| !source.exists())
    }

    /// Reads all panels, and removes files that are damaged; these are returned.
    ///
    /// # Errors
    /// When a file cannot be read, or a damaged one not be removed.
    pub fn verify(&self) -> Result<Vec<PathBuf>, PanelError> {
        let mut damaged = vec![];
        for path in &self.files {
            match read_all(path) {
                Err(PanelError::Broken { .. }) => {
                    fs::remove_file(path).map_err(|e| PanelError::io("remove", path, e))?;
                    damaged.push(path.clone());
                }
                read => read?,
            }
        }
        Ok(damaged)
    }

    /// Removes them; false where another process is writing more of them just now. A process that has them open reads on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn remove(&self) -> io::Result<bool> {
        let lock = open_lock(&self.path.join(LOCK))?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(e)) => return Err(e),
            Ok(()) => {}
        }
        fs::remove_dir_all(&self.path)?;
        Ok(true)
    }
}

/// Reads every panel of a file.
fn read_all(path: &Path) -> Result<(), PanelError> {
    let file = PanelFile::open(path, PanelAccess { buffered: true, ..PanelAccess::default() })?;
    let mut out = vec![];
    for (i, matrix) in file.matrices().iter().enumerate() {
        let (panels, some) = (matrix.sums.len(), (WINDOW / matrix.panel_bytes.max(1)).max(1));
        for first in (0..panels).step_by(some) {
            let range = first..panels.min(first + some);
            out.resize(range.len() * matrix.panel_bytes, 0);
            file.read(i, range, &mut out)?;
        }
    }
    Ok(())
}
