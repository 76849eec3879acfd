//! LM Studio's folder, read only: `publisher/repository/file.gguf`.

use crate::{
    choice::{RepoFile, choose, stem},
    error::{HubError, Result},
    name::RepoName,
    settings::home,
    store::{ModelStore, StoredModel},
};
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Folders of LM Studio below a home: the present one, and that of older versions.
const PLACES: &[&str] = &[".lmstudio/models", ".cache/lm-studio/models"];

/// Folders of LM Studio on this machine.
#[derive(Debug, Clone)]
pub struct LmStudioStore {
    roots: Vec<PathBuf>,
}

impl LmStudioStore {
    /// Those of the user.
    pub fn of_the_environment() -> LmStudioStore {
        let home = home(|name| env::var_os(name).filter(|v| !v.is_empty()));
        LmStudioStore::at(home.iter().flat_map(|home| PLACES.iter().map(|place| home.join(place))))
    }

    /// These folders.
    pub fn at(roots: impl IntoIterator<Item = PathBuf>) -> LmStudioStore {
        LmStudioStore { roots: roots.into_iter().collect() }
    }

    /// The file or folder of a name.
    ///
    /// # Errors
    /// When there is none, or several could be meant.
    pub fn find(&self, name: &RepoName) -> Result<PathBuf> {
        let missing = || HubError::Store {
            name: format!("lmstudio:{name}"),
            problem: "LM Studio has no such model; `lamina list` names what there is".to_owned(),
        };
        let folder = self.roots.iter().map(|root| root.join(&name.repo)).find(|folder| folder.is_dir());
        let folder = folder.ok_or_else(missing)?;
        let choice = choose(&files(&folder), &name.part).map_err(|(problem, files)| HubError::Choice {
            repo: name.repo.clone(),
            problem,
            files,
        })?;
        let first = choice.files.first().filter(|_| !choice.is_folder);
        Ok(first.map_or_else(|| folder.clone(), |first| folder.join(&first.path)))
    }

    /// All models; shards of one are one.
    pub fn list(&self) -> Vec<StoredModel> {
        let mut found: Vec<StoredModel> = vec![];
        for (publisher, folder) in self.roots.iter().flat_map(|root| folders(root)) {
            for (repo, folder) in folders(&folder) {
                let mut stems = vec![];
                for file in files(&folder).iter().filter(|file| file.path.ends_with(".gguf")) {
                    if !stems.contains(&stem(&file.path)) {
                        stems.push(stem(&file.path));
                        let name = format!("lmstudio:{publisher}/{repo}/{}", file.path);
                        found.extend(StoredModel::of_file(
                            name,
                            ModelStore::LmStudio,
                            folder.join(&file.path),
                        ));
                    }
                }
            }
        }
        found
    }
}

fn folders(root: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let named = entries.filter_map(|e| Some((e.file_name().into_string().ok()?, e.path())));
    let mut found: Vec<_> = named.filter(|(_, path)| path.is_dir()).collect();
    found.sort();
    found
}

fn files(folder: &Path) -> Vec<RepoFile> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let file = |entry: fs::DirEntry| {
        let about = entry.path().metadata().ok().filter(fs::Metadata::is_file)?;
        Some(RepoFile { path: entry.file_name().into_string().ok()?, size: Some(about.len()) })
    };
    let mut files: Vec<_> = entries.filter_map(file).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}
