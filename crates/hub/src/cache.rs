//! The hub's cache on disk, in its own client's layout: `models--org--name/{blobs/<etag>, refs/<revision>,
//! snapshots/<commit>/<file> -> ../../blobs/<etag>}`, locks beside it in `.locks`. What other programs fetched is found here,
//! and they find what was fetched by this one.

use crate::{
    choice::{ChosenFiles, RepoFile, choose},
    error::{HubError, Result},
    name::{RepoName, is_inner_path},
};
use lamina_base::files::read_regular;
use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Most bytes of a file that holds the name of a commit.
const MOST_REF: u64 = 4096;
/// How deep folders of a repository are followed.
const MOST_DEPTH: usize = 8;
/// What a repository's folder begins with.
const PREFIX: &str = "models--";

/// The cache.
#[derive(Debug, Clone)]
pub struct HubCache {
    root: PathBuf,
}

/// A repository's folder in the cache.
#[derive(Debug, Clone)]
pub struct CachedRepo {
    /// `org/name`.
    pub repo: String,
    /// Its folder; it may not be there.
    pub folder: PathBuf,
    locks: PathBuf,
}

impl HubCache {
    /// The cache in this folder, which may not be there yet.
    pub fn new(root: impl Into<PathBuf>) -> HubCache {
        HubCache { root: root.into() }
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The place of a repository.
    pub fn repo(&self, repo: &str) -> CachedRepo {
        let name = format!("{PREFIX}{}", repo.replace('/', "--"));
        let (folder, locks) = (self.root.join(&name), self.root.join(".locks").join(&name));
        CachedRepo { repo: repo.to_owned(), folder, locks }
    }

    /// All repositories with models.
    pub fn repos(&self) -> Vec<CachedRepo> {
        let names = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let mut repos: Vec<_> =
            names.filter_map(|n| Some(n.strip_prefix(PREFIX)?.replacen("--", "/", 1))).collect();
        repos.sort();
        repos.iter().map(|repo| self.repo(repo)).filter(|repo| repo.folder.is_dir()).collect()
    }

    /// The model of a name and the path to open it by, as far as it was fetched before.
    ///
    /// # Errors
    /// When files of the name are ambiguous.
    pub fn find(&self, name: &RepoName) -> Result<Option<PathBuf>> {
        let repo = self.repo(&name.repo);
        let Some(commit) = repo.commit(name.revision()) else { return Ok(None) };
        let files = repo.files(&commit);
        let Ok(choice) = choose(&files, &name.part) else { return Ok(None) };
        let whole = is_whole(&repo.snapshot(&commit), &choice);
        Ok(whole.then(|| repo.path_of(&commit, &choice)))
    }

    /// What is missing of a name that [`find`](Self::find) does not find, in brackets; nothing where all of it is.
    pub fn missing(&self, name: &RepoName) -> String {
        let repo = self.repo(&name.repo);
        let what = match (repo.commit(name.revision()), repo.commits()) {
            (None, others) if others.is_empty() => return String::new(),
            (None, others) => {
                format!("its revision {} was not fetched, but {}", name.revision(), others.join(", "))
            }
            (Some(commit), _) => match choose(&repo.files(&commit), &name.part) {
                Err((problem, files)) if files.is_empty() => problem,
                Err((problem, files)) => format!("{problem}; here are: {}", files.join(", ")),
                Ok(_) => "some of its files are missing".to_owned(),
            },
        };
        format!(" ({what})")
    }
}

impl CachedRepo {
    /// The commit that a branch, a tag or a commit means here.
    pub fn commit(&self, revision: &str) -> Option<String> {
        if !is_inner_path(revision) {
            return None;
        }
        let named = read_regular(&self.folder.join("refs").join(revision), MOST_REF).ok();
        let named = named.and_then(|bytes| Some(String::from_utf8(bytes).ok()?.trim().to_owned()));
        named.filter(|commit| is_plain(commit)).or_else(|| {
            let whole = is_plain(revision) && self.snapshot(revision).is_dir();
            whole.then(|| revision.to_owned())
        })
    }

    /// All commits of which there are files.
    pub fn commits(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.join("snapshots")).into_iter().flatten().flatten();
        let mut names: Vec<_> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The folder of a commit's files.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// The files of a commit that are here. Links whose blob is gone are none.
    pub fn files(&self, commit: &str) -> Vec<RepoFile> {
        let mut files = vec![];
        walk(&self.snapshot(commit), "", 0, &mut files);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    }

    /// What a model is opened by.
    pub fn path_of(&self, commit: &str, choice: &ChosenFiles) -> PathBuf {
        let folder = self.snapshot(commit);
        match choice.files.first() {
            Some(first) if !choice.is_folder => folder.join(&first.path),
            _ => folder,
        }
    }

    /// Where the bytes of an etag lie.
    ///
    /// # Errors
    /// When it cannot be the name of a file.
    pub fn blob(&self, etag: &str) -> Result<PathBuf> {
        let wrong = || {
            let problem = format!("its etag `{etag}` cannot be the name of a file");
            HubError::Answer { url: self.repo.clone(), problem }
        };
        if is_plain(etag) { Ok(self.folder.join("blobs").join(etag)) } else { Err(wrong()) }
    }

    /// The lock that programs hold while they fetch a blob.
    ///
    /// # Errors
    /// When its folder cannot be made.
    pub fn lock(&self, etag: &str) -> Result<PathBuf> {
        make_folder(&self.locks)?;
        Ok(self.locks.join(format!("{etag}.lock")))
    }

    /// Makes the folders that every repository has.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn make(&self) -> Result<()> {
        ["blobs", "snapshots", "refs"].iter().try_for_each(|name| make_folder(&self.folder.join(name)))
    }

    /// Has `file` of a commit be the blob of `etag`: by a relative link, or where there are none, by a copy.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn link(&self, commit: &str, file: &str, etag: &str) -> Result<PathBuf> {
        let path = self.snapshot(commit).join(file);
        let blob = self.blob(etag)?;
        make_folder(path.parent().unwrap_or(&self.folder))?;
        let up = "../".repeat(file.split('/').count() + 1);
        let target = format!("{up}blobs/{etag}");
        if fs::read_link(&path).is_ok_and(|old| old == Path::new(&target)) {
            return Ok(path);
        }
        // A link that leads elsewhere, or nowhere, gives way.
        if path.symlink_metadata().is_ok() {
            fs::remove_file(&path).map_err(HubError::file("write", &path))?;
        }
        match symlink(&target, &path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(_) => drop(fs::copy(&blob, &path).map_err(HubError::file("write", &path))?),
            Ok(()) => {}
        }
        Ok(path)
    }

    /// Notes which commit a branch or a tag is.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn note_commit(&self, revision: &str, commit: &str) -> Result<()> {
        if revision == commit || self.commit(revision).as_deref() == Some(commit) {
            return Ok(());
        }
        write_whole(&self.folder.join("refs").join(revision), commit.as_bytes())
    }

    /// Folder of the repository's locks.
    pub fn locks(&self) -> &Path {
        &self.locks
    }
}

/// True for what can be the name of a file and of a commit: letters, digits, `-` and `_`, and dots inside.
pub fn is_plain(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.len() <= 128 && !text.starts_with('.') && text.chars().all(letter)
}

/// Writes a small file so that it is there whole or not at all.
///
/// # Errors
/// When the system refuses.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    make_folder(path.parent().unwrap_or(Path::new(".")))?;
    let beside = format!(".{}-{}.lamina", process::id(), NUMBER.fetch_add(1, Relaxed));
    let beside = path.with_file_name(beside);
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    written.map_err(HubError::file("write", path))
}

/// Makes a folder and all above it.
///
/// # Errors
/// When the system refuses.
pub fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(HubError::file("write", path))
}

/// True where nothing that a folder's index names is missing, and no shard of a GGUF file.
fn is_whole(snapshot: &Path, choice: &ChosenFiles) -> bool {
    if !choice.is_folder {
        let first = choice.files.first().map_or("", |f| f.path.as_str());
        let count =
            first.rsplit_once("-of-").and_then(|(_, n)| n.strip_suffix(".gguf")?.parse::<usize>().ok());
        return count.is_none_or(|count| choice.files.len() == count);
    }
    let index = read_regular(&snapshot.join("model.safetensors.index.json"), 256 << 20).ok();
    let index: serde_json::Value = index.and_then(|i| serde_json::from_slice(&i).ok()).unwrap_or_default();
    let shards = index["weight_map"].as_object().into_iter().flatten().filter_map(|(_, file)| file.as_str());
    let configured = ["config.json", "adapter_config.json"].iter().any(|name| snapshot.join(name).is_file());
    configured && shards.into_iter().all(|file| is_inner_path(file) && snapshot.join(file).is_file())
}

fn walk(folder: &Path, inside: &str, depth: usize, files: &mut Vec<RepoFile>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, Ok(name)) = (entry.path(), entry.file_name().into_string()) else { continue };
        let inner = if inside.is_empty() { name } else { format!("{inside}/{name}") };
        match path.metadata() {
            Ok(about) if about.is_file() => files.push(RepoFile { path: inner, size: Some(about.len()) }),
            Ok(about) if about.is_dir() && depth < MOST_DEPTH => walk(&path, &inner, depth + 1, files),
            _ => {}
        }
    }
}

#[cfg(unix)]
fn symlink(target: &str, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(windows)]
fn symlink(target: &str, path: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(target.replace('/', "\\"), path)
}

#[cfg(not(any(unix, windows)))]
fn symlink(_: &str, _: &Path) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}
