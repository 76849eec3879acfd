//! The models of a directory.

use super::slot::{ModelSlot, SlotOrigin};
use crate::options::{KeepAlive, ModelSettings, ServeOptions};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

/// How long a model of a directory stays in memory without requests.
pub(super) const KEEP: Duration = Duration::from_secs(300);

/// How often a directory is read whose own time has not changed: files in its folders come without it.
const LOOK: Duration = Duration::from_secs(1);

/// A directory whose models can be asked for by name.
pub(super) struct Directory {
    path: PathBuf,
    settings: ModelSettings,
    /// When it was read last, and its own time then.
    read: Mutex<Option<(Instant, Option<SystemTime>)>>,
}

impl Directory {
    /// The directory that `options` name.
    pub fn of(options: &ServeOptions) -> Option<Directory> {
        let path = options.models_dir.clone()?;
        Some(Directory { path, settings: options.model.clone(), read: Mutex::new(None) })
    }

    /// Whether something may have changed since the last time that this was asked.
    pub fn may_have_changed(&self) -> bool {
        let written = self.path.metadata().and_then(|m| m.modified()).ok();
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // Clocks of file systems are coarse: what was written just now may be written again at the same time.
        let settled = written.is_some_and(|at| at.elapsed().is_ok_and(|age| age > LOOK));
        let same = settled && read.is_some_and(|(at, then)| then == written && at.elapsed() < LOOK);
        if !same {
            *read = Some((Instant::now(), written));
        }
        !same
    }

    /// A slot for every model in it: GGUF files, the first of their shards, and folders. Requests name them by their
    /// stems, never by paths.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn slots(&self) -> lamina::Result<Vec<Arc<ModelSlot>>> {
        let unreadable =
            |e| lamina::Error::Model(format!("the models in {} cannot be listed: {e}", self.path.display()));
        let entries = fs::read_dir(&self.path).map_err(unreadable)?;
        let mut paths: Vec<_> =
            entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| is_model(p)).collect();
        paths.sort();
        let slot = |path: &PathBuf| {
            let settings = self.settings.clone();
            let alive = settings.keep_alive.unwrap_or(KeepAlive::For(KEEP));
            Arc::new(ModelSlot::new(stem(Some(path)), SlotOrigin::Path(Some(path.clone())), settings, alive))
        };
        Ok(paths.iter().map(slot).collect())
    }
}

/// A model's name by its file: without the ending, and without the number of a shard.
pub(super) fn stem(path: Option<&Path>) -> String {
    let Some(path) = path else { return "lamina-tiny".into() };
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let name = name.strip_suffix(".gguf").unwrap_or(&name);
    let shard = name.rsplit_once("-of-").and_then(|(first, _)| first.rsplit_once("-0"));
    shard.map_or(name, |(stem, _)| stem).to_owned()
}

fn is_model(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let shard = name.rsplit_once("-of-").and_then(|(first, _)| first.rsplit_once('-'));
    let later = shard.is_some_and(|(_, number)| number.parse::<u32>().is_ok_and(|n| n > 1));
    (name.ends_with(".gguf") && !later && path.is_file()) || path.join("config.json").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_stems() {
        assert_eq!(stem(Some(Path::new("/m/tiny.gguf"))), "tiny");
        assert_eq!(stem(Some(Path::new("/m/big-00001-of-00003.gguf"))), "big");
        assert_eq!(stem(Some(Path::new("/m/folder"))), "folder");
    }

    #[test]
    fn later_shards_are_no_models() {
        let dir = tempfile::TempDir::new().unwrap();
        for name in ["a.gguf", "b-00001-of-00002.gguf", "b-00002-of-00002.gguf", "notes.txt"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        fs::create_dir(dir.path().join("c")).unwrap();
        fs::write(dir.path().join("c/config.json"), "{}").unwrap();
        let options = ServeOptions { models_dir: Some(dir.path().to_owned()), ..ServeOptions::default() };
        let slots = Directory::of(&options).unwrap().slots().unwrap();
        assert_eq!(slots.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}
