//! Reads what was fetched again, and compares it with the hub's checksums.

use crate::{
    client::Checksum,
    error::{HubError, Result},
    hub::Hub,
    name::RepoName,
    progress::{PullProgress, PullWatch},
};
use std::{collections::BTreeMap, fs, path::PathBuf};

impl Hub {
    /// Reads all files of a name's revision; what is damaged is deleted and named.
    ///
    /// # Errors
    /// When nothing of it is here, a file cannot be read, or `watch` gives up.
    pub fn verify(&self, name: &RepoName, watch: &dyn PullWatch) -> Result<Vec<String>> {
        let repo = self.cache.repo(&name.repo);
        let why = "there is nothing to verify";
        let missing =
            || HubError::NotHere { name: format!("hf:{name}"), missing: self.cache.missing(name), why };
        let commit = repo.commit(name.revision()).ok_or_else(missing)?;
        let files = repo.files(&commit);
        let mut progress =
            PullProgress { size: files.iter().filter_map(|f| f.size).sum(), ..PullProgress::default() };
        let mut damaged: BTreeMap<PathBuf, String> = BTreeMap::new();
        for file in &files {
            progress.file.clone_from(&file.path);
            if !watch.at(&progress) {
                return Err(HubError::Cancelled);
            }
            let link = repo.snapshot(&commit).join(&file.path);
            let blob = fs::canonicalize(&link).map_err(HubError::file("read", &link))?;
            let etag = blob.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match Checksum::of_etag(&etag).check(&blob, &file.path) {
                Err(e @ HubError::Checksum { .. }) => {
                    watch.say(&e.to_string());
                    fs::remove_file(&link).map_err(HubError::file("write", &link))?;
                    damaged.insert(blob, file.path.clone());
                }
                done => done?,
            }
            progress.done += file.size.unwrap_or(0);
        }
        damaged.keys().try_for_each(|blob| fs::remove_file(blob).map_err(HubError::file("write", blob)))?;
        Ok(damaged.into_values().collect())
    }
}
