//! The folder of a store: `v1/ab/NAME.new` for entries that were never used again, `v1/ab/NAME.used` for the others.

use crate::{
    cache_key::CacheKey,
    entry::{Damage, Entry, Key, MOST_ENTRY, Unwritten},
    evict::{StoredEntry, victims},
    whole_file::{UNFINISHED, remove_abandoned, replace_file},
};
use lamina_base::files::{open_regular, read_regular};
use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// What entries are called that were read since they were written, and those that were not.
const ENDINGS: [&str; 2] = ["used", "new"];

/// Files of entries, which several processes may share.
#[derive(Clone, Debug)]
pub struct StoreFolder {
    path: PathBuf,
    writable: bool,
    key: Option<CacheKey>,
}

impl StoreFolder {
    /// The entries below `path`; the folder is made where it is missing. One that may be read alone is read.
    ///
    /// # Errors
    /// When it can be neither written nor read.
    pub fn open(path: &Path) -> io::Result<StoreFolder> {
        let mut folder = StoreFolder { path: path.join("v1"), writable: true, key: None };
        // Written once: else the disk would refuse much later.
        let tried = fs::create_dir_all(&folder.path)
            .and_then(|()| tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&folder.path));
        if let Err(e) = tried {
            let refused = [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem].contains(&e.kind());
            if !refused || fs::read_dir(&folder.path).is_err() {
                return Err(e);
            }
            folder.writable = false;
        }
        folder.shards().chain([folder.path.clone()]).for_each(|f| remove_abandoned(&f, UNFINISHED));
        Ok(folder)
    }

    /// The same folder, of which entries are read and written that were signed with `key`.
    #[must_use]
    pub fn signed_by(self, key: Option<CacheKey>) -> StoreFolder {
        StoreFolder { key, ..self }
    }

    /// What the file of entry `key` is called.
    fn name(&self, key: &Key) -> Key {
        self.key.as_ref().map_or(*key, |secret| secret.name(key))
    }

    /// The entry that is written of `unwritten`.
    pub fn entry(&self, unwritten: &Unwritten) -> Entry {
        match &self.key {
            Some(key) => key.sign(unwritten.clone()).entry(),
            None => unwritten.entry(),
        }
    }

    /// False where entries can be read, and none be added.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The entry called `key`: none where there is none. It counts as used from now on.
    ///
    /// # Errors
    /// A damaged entry, which is removed.
    pub fn read(&self, key: &Key) -> Result<Option<Entry>, Damage> {
        let name = self.name(key);
        for (i, path) in self.paths(&name).into_iter().enumerate() {
            let Ok(bytes) = read_regular(&path, MOST_ENTRY) else { continue };
            let read = Entry::read(&name, bytes);
            let opened = read.and_then(|entry| match &self.key {
                Some(key) => key.open(entry),
                None => Ok(entry),
            });
            let entry = opened.inspect_err(|_| drop(fs::remove_file(&path)))?;
            let used = if i == 0 { path } else { self.promote(&name, path) };
            let _ = open_regular(&used).and_then(|file| file.set_modified(SystemTime::now()));
            return Ok(Some(entry));
        }
        Ok(None)
    }

    /// True when there is a file for `key`.
    pub fn contains(&self, key: &Key) -> bool {
        self.paths(&self.name(key)).iter().any(|path| path.is_file())
    }

    /// Writes an entry; false when there is one of this name, which stays. What lies there and is no file gives way.
    ///
    /// There is no fsync: a kill leaves the file whole or unfinished, and what a power failure leaves is found by its
    /// checksum. Waiting for the disk would bound the rate by its latency, for numbers that can be computed again.
    ///
    /// # Errors
    /// When the disk is full or fails; nothing is left behind.
    pub fn write(&self, entry: &Entry) -> io::Result<bool> {
        let paths = self.paths(&entry.key());
        if paths.iter().any(|path| path.is_file()) {
            return Ok(false);
        }
        let [_, path] = paths;
        let parent = path.parent().unwrap_or(&self.path);
        fs::create_dir_all(parent)?;
        replace_file(&path, entry.bytes()).map(|()| true)
    }

    /// All entries, in no order. Files of other names are not looked at.
    pub fn list(&self) -> Vec<StoredEntry> {
        let files = self.shards().flat_map(|shard| fs::read_dir(shard).into_iter().flatten().flatten());
        files.filter_map(|file| stored(&file)).collect()
    }

    /// Reads an entry without using it; false when it is damaged. One that another process has removed is whole.
    pub fn is_whole(&self, entry: &StoredEntry) -> bool {
        match read_regular(&entry.path, MOST_ENTRY) {
            Ok(bytes) => Entry::read(&entry.key, bytes).is_ok(),
            Err(e) => e.kind() == ErrorKind::NotFound,
        }
    }

    /// Evicts entries until at most `budget` bytes are left; returns how many bytes are.
    pub fn prune(&self, budget: u64) -> u64 {
        let all = self.list();
        let total: u64 = all.iter().map(|e| e.bytes).sum();
        if !self.writable {
            return total;
        }
        let gone = victims(all, budget).into_iter().filter(|e| self.remove(e).is_ok());
        total - gone.map(|e| e.bytes).sum::<u64>()
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// When the system refuses; an entry that another process has removed is no error.
    pub fn remove(&self, entry: &StoredEntry) -> io::Result<()> {
        match fs::remove_file(&entry.path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    fn promote(&self, key: &Key, path: PathBuf) -> PathBuf {
        let [used, _] = self.paths(key);
        if fs::rename(&path, &used).is_ok() { used } else { path }
    }

    /// Paths that an entry may have, by [`ENDINGS`].
    fn paths(&self, key: &Key) -> [PathBuf; 2] {
        let name: String = key.iter().map(|b| format!("{b:02x}")).collect();
        ENDINGS.map(|ending| self.path.join(&name[..2]).join(format!("{name}.{ending}")))
    }

    fn shards(&self) -> impl Iterator<Item = PathBuf> {
        let inside = fs::read_dir(&self.path).into_iter().flatten().flatten();
        inside.map(|shard| shard.path()).filter(|path| path.is_dir())
    }
}

/// The entry that a file's name says it holds.
fn stored(file: &fs::DirEntry) -> Option<StoredEntry> {
    let name = file.file_name();
    let (hex, ending) = name.to_str()?.split_once('.')?;
    let used = *ENDINGS.get(ENDINGS.iter().position(|e| *e == ending)?)? == ENDINGS[0];
    let mut key = Key::default();
    if hex.len() != 2 * key.len() || !hex.is_ascii() {
        return None;
    }
    for (i, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok()?;
    }
    let about = file.metadata().ok()?;
    Some(StoredEntry { key, path: file.path(), bytes: about.len(), last_use: about.modified().ok()?, used })
}
