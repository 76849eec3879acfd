//! What `lamina rm` takes away: links of a model, and blobs that nothing else needs.

use crate::{
    cache::{CachedRepo, HubCache},
    choice::{RepoFile, choose, is_encoder, is_model},
    error::{HubError, Result},
    name::{RepoName, RepoPart},
};
use lamina_base::files::read_text;
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

/// What is, or would be, removed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Removal {
    /// Files of snapshots, blobs and what was left of fetching.
    pub paths: Vec<PathBuf>,
    /// Bytes that this frees.
    pub bytes: u64,
}

impl HubCache {
    /// Removes the files of a name: of its revision, or of all where none is named. A name without a tag or a file is all of
    /// the repository. With `dry` only tells.
    ///
    /// # Errors
    /// When it is not in the cache, or the system refuses.
    pub fn remove(&self, name: &RepoName, dry: bool) -> Result<Removal> {
        let repo = self.repo(&name.repo);
        let commits = match &name.revision {
            Some(revision) => repo.commit(revision).into_iter().collect(),
            None => repo.commits(),
        };
        let links: Vec<PathBuf> =
            commits.iter().flat_map(|commit| links(&repo, commit, &name.part)).collect();
        let all = name.revision.is_none() && name.part == RepoPart::Default && repo.folder.is_dir();
        if links.is_empty() && !all {
            let problem = "nothing of it is in the hub's cache; `lamina list` names what there is".into();
            return Err(HubError::Store { name: format!("hf:{name}"), problem });
        }
        if all {
            return remove_all(&repo, dry);
        }
        remove_links(&repo, links, dry)
    }
}

/// Files of a snapshot that belong to `part`.
fn links(repo: &CachedRepo, commit: &str, part: &RepoPart) -> Vec<PathBuf> {
    let files = repo.files(commit);
    let chosen = match part {
        RepoPart::Default => files,
        part => {
            let mut chosen = choose(&files, part).map_or(vec![], |choice| choice.files);
            let stays = |file: &RepoFile| is_model(&file.path) && !chosen.contains(file);
            // Encoders go with the last model.
            if chosen.iter().any(|file| is_model(&file.path)) && !files.iter().any(stays) {
                chosen.extend(files.iter().filter(|file| is_encoder(&file.path)).cloned());
            }
            chosen
        }
    };
    chosen.iter().map(|file| repo.snapshot(commit).join(&file.path)).collect()
}

fn remove_all(repo: &CachedRepo, dry: bool) -> Result<Removal> {
    let blobs = fs::read_dir(repo.folder.join("blobs")).into_iter().flatten().flatten();
    let bytes = blobs.filter_map(|blob| Some(blob.metadata().ok()?.len())).sum();
    if !dry {
        fs::remove_dir_all(&repo.folder).map_err(HubError::file("write", &repo.folder))?;
        // Locks that nobody made are gone already.
        let _ = fs::remove_dir_all(repo.locks());
    }
    Ok(Removal { paths: vec![repo.folder.clone()], bytes })
}

fn remove_links(repo: &CachedRepo, links: Vec<PathBuf>, dry: bool) -> Result<Removal> {
    let target = |link: &Path| fs::canonicalize(link).ok();
    let gone: HashSet<&PathBuf> = links.iter().collect();
    let all = repo.commits().into_iter().flat_map(|commit| {
        let snapshot = repo.snapshot(&commit);
        repo.files(&commit).into_iter().map(move |file| snapshot.join(file.path))
    });
    let kept: HashSet<PathBuf> =
        all.filter(|link| !gone.contains(link)).filter_map(|link| target(&link)).collect();
    let blobs: HashSet<PathBuf> =
        links.iter().filter_map(|link| target(link)).filter(|b| !kept.contains(b)).collect();
    let bytes = blobs.iter().filter_map(|blob| Some(blob.metadata().ok()?.len())).sum();
    let mut paths = links;
    // Where links are copies, a file is its own blob.
    paths.extend(blobs.into_iter().filter(|blob| blob.parent().is_some_and(|p| p.ends_with("blobs"))));
    if !dry {
        paths.iter().try_for_each(|p| fs::remove_file(p).map_err(HubError::file("write", p)))?;
        remove_empty(repo)?;
    }
    Ok(Removal { paths, bytes })
}

/// Takes away snapshots without files, and what then names them.
fn remove_empty(repo: &CachedRepo) -> Result<()> {
    for commit in repo.commits().iter().filter(|commit| repo.files(commit).is_empty()) {
        let folder = repo.snapshot(commit);
        fs::remove_dir_all(&folder).map_err(HubError::file("write", &folder))?;
        let refs = fs::read_dir(repo.folder.join("refs")).into_iter().flatten().flatten();
        let names = |path: &Path| read_text(path).is_ok_and(|text| text.trim() == commit);
        for path in refs.map(|entry| entry.path()).filter(|path| path.is_file() && names(path)) {
            fs::remove_file(&path).map_err(HubError::file("write", path))?;
        }
    }
    if repo.commits().is_empty() { remove_all(repo, false).map(drop) } else { Ok(()) }
}
