//! The panel files of one model: a file for what was first wanted, and others for what was wanted in addition later.

use super::{
    index::MatrixName,
    open::{PanelAccess, PanelFile},
    write::{PanelWriter, WriteWindow},
};
use crate::{error::PanelError, whole_file::UNFINISHED};
use lamina_base::files::open_lock;
use std::{
    collections::HashMap,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
};
use xxhash_rust::xxh3::xxh3_64;

/// The file that writers lock.
pub(super) const LOCK: &str = "lock";
/// How the names of panel files end.
pub(super) const ENDING: &str = "panels";

/// A folder of panel files that belong to one model. Processes that write take turns; those that read need not wait.
#[derive(Debug)]
pub struct PanelFolder {
    path: PathBuf,
    key: String,
    access: PanelAccess,
    files: Vec<Arc<PanelFile>>,
    /// File and place in its index of each matrix.
    places: HashMap<MatrixName, (usize, usize)>,
}

/// The folder of the model that `key` names.
fn folder_of(root: &Path, key: &str) -> PathBuf {
    root.join("panels").join(format!("{:016x}", xxh3_64(key.as_bytes())))
}

impl PanelFolder {
    /// The files below `root` of the model that `key` names. Files that are damaged or of another model are not used, and
    /// go when something is written.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn open(root: &Path, key: &str, access: PanelAccess) -> Result<PanelFolder, PanelError> {
        let path = folder_of(root, key);
        fs::create_dir_all(&path).map_err(|e| PanelError::io("make", &path, e))?;
        let mut folder = PanelFolder::empty(path, key, access);
        folder.look();
        Ok(folder)
    }

    /// The same, if there is such a folder: none is made.
    pub fn existing(root: &Path, key: &str, access: PanelAccess) -> Option<PanelFolder> {
        let path = folder_of(root, key);
        let mut folder = path.is_dir().then(|| PanelFolder::empty(path, key, access))?;
        folder.look();
        Some(folder)
    }

    fn empty(path: PathBuf, key: &str, access: PanelAccess) -> PanelFolder {
        PanelFolder { path, key: key.to_owned(), access, files: vec![], places: HashMap::new() }
    }

    /// One of its files.
    pub fn any_file(&self) -> Option<PathBuf> {
        self.files.first().map(|file| file.path().to_owned())
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that has a matrix, and the place of the matrix in it.
    pub fn find(&self, name: &MatrixName) -> Option<(&Arc<PanelFile>, usize)> {
        self.places.get(name).map(|&(file, place)| (&self.files[file], place))
    }

    /// Bytes of those of `matrices` (name, panels, bytes of a panel) that are in no file.
    pub fn missing_bytes(&self, matrices: &[(MatrixName, usize, usize)]) -> u64 {
        let missing = matrices.iter().filter(|m| !self.places.contains_key(&m.0));
        missing.map(|(_, panels, bytes)| *panels as u64 * *bytes as u64).sum()
    }

    /// Bytes of the panels of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().flat_map(|f| f.matrices()).map(|m| m.bytes()).sum()
    }

    /// Writes those of `matrices` (name, panels, bytes of a panel) that are missing into a new file; `pack` is called with
    /// their places in `matrices`. Where another process writes, waits for it, and writes what is missing then.
    ///
    /// # Errors
    /// Those of `pack`; when the disk is full or fails, which leaves no file.
    pub fn add<E: From<PanelError>>(
        &mut self,
        matrices: &[(MatrixName, usize, usize)],
        pack: WriteWindow<'_, E>,
    ) -> Result<(), E> {
        let missing = |folder: &PanelFolder| -> Vec<usize> {
            (0..matrices.len()).filter(|&i| !folder.places.contains_key(&matrices[i].0)).collect()
        };
        if missing(self).is_empty() {
            return Ok(());
        }
        let _turn = self.lock()?;
        self.look();
        let wanted = missing(self);
        if wanted.is_empty() {
            return Ok(());
        }
        self.remove_leftovers();
        let listed = wanted.iter().map(|&i| matrices[i].clone());
        let mut writer = PanelWriter::new(&self.path, &self.key, listed)?;
        writer.write(&mut |matrix, panels, out: &mut [u8]| pack(wanted[matrix], panels, out))?;
        writer.finish(&self.unused_name())?;
        self.look();
        Ok(())
    }

    /// Removes a file whose panels are damaged, so that the next load writes it anew.
    pub fn discard(file: &PanelFile) {
        // If it stays, it is found damaged again.
        let _ = fs::remove_file(file.path());
    }

    fn lock(&self) -> Result<File, PanelError> {
        let path = self.path.join(LOCK);
        let failed = |e| PanelError::io("lock", &path, e);
        let file = open_lock(&path).map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(file)
    }

    /// Opens all files that are whole.
    fn look(&mut self) {
        let files = self.panel_files().into_iter();
        let files = files.filter_map(|path| PanelFile::open(&path, self.access).ok());
        self.files = files.filter(|f| f.key() == self.key).map(Arc::new).collect();
        let all = self.files.iter().enumerate().flat_map(|(f, file)| {
            file.matrices().iter().enumerate().map(move |(m, entry)| (entry.name.clone(), (f, m)))
        });
        self.places = all.collect();
    }

    fn panel_files(&self) -> Vec<PathBuf> {
        let inside = fs::read_dir(&self.path).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<_> = inside.filter(|p| p.extension().is_some_and(|e| e == ENDING)).collect();
        files.sort();
        files
    }

    /// Removes what killed writers and damaged disks have left. Only who has the lock writes, so nobody else needs them.
    fn remove_leftovers(&self) {
        let inside = fs::read_dir(&self.path).into_iter().flatten().flatten().map(|entry| entry.path());
        let unfinished = inside.filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(UNFINISHED))
        });
        let used: Vec<_> = self.files.iter().map(|f| f.path().to_owned()).collect();
        let unused = self.panel_files().into_iter().filter(|path| !used.contains(path));
        unfinished.chain(unused).for_each(|path| drop(fs::remove_file(path)));
    }

    fn unused_name(&self) -> PathBuf {
        let names = (0..).map(|i| self.path.join(format!("{i:04}.{ENDING}")));
        names.into_iter().find(|path| !path.exists()).expect("there is no end of numbers")
    }
}
