//! A model in one of the stores of this machine.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Whose store a model is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelStore {
    /// The cache that the hub's clients share.
    Hub,
    /// Ollama's, which is only read.
    Ollama,
    /// LM Studio's, which is only read.
    LmStudio,
}

impl ModelStore {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            ModelStore::Hub => "hub",
            ModelStore::Ollama => "ollama",
            ModelStore::LmStudio => "lmstudio",
        }
    }
}

/// A model that is on this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredModel {
    /// What `lamina run` takes.
    pub name: String,
    /// Whose it is.
    pub store: ModelStore,
    /// What it is opened by.
    pub path: PathBuf,
    /// Bytes of its files.
    pub bytes: u64,
    /// When it was read last, as far as the system remembers.
    pub used: Option<SystemTime>,
}

impl StoredModel {
    /// A model of one file.
    pub fn of_file(name: String, store: ModelStore, path: PathBuf) -> Option<StoredModel> {
        let (bytes, used) = (path.metadata().ok()?.len(), last_use(&path));
        Some(StoredModel { name, store, path, bytes, used })
    }
}

/// When a file was read last. Systems that do not note that say when it was written.
pub fn last_use(path: &Path) -> Option<SystemTime> {
    let about = path.metadata().ok()?;
    about.accessed().ok().max(about.modified().ok())
}
