//! All models of all stores of this machine.

use crate::{
    cache::{CachedRepo, HubCache},
    choice::{RepoFile, choose, is_model, stem},
    lm_studio::LmStudioStore,
    name::RepoPart,
    ollama::OllamaStore,
    store::{ModelStore, StoredModel, last_use},
};

impl HubCache {
    /// All models in the cache: GGUF files by their paths, folders by their repositories. Of several commits of a repository
    /// the one that `main` is comes without a revision.
    pub fn list(&self) -> Vec<StoredModel> {
        self.repos()
            .iter()
            .flat_map(|repo| {
                let main = repo.commit(crate::name::MAIN);
                repo.commits().into_iter().flat_map(move |commit| {
                    let revision =
                        if main.as_ref() == Some(&commit) { String::new() } else { format!("@{commit}") };
                    models(repo, &commit, &revision)
                })
            })
            .collect()
    }
}

fn models(repo: &CachedRepo, commit: &str, revision: &str) -> Vec<StoredModel> {
    let files = repo.files(commit);
    let snapshot = repo.snapshot(commit);
    let mut found: Vec<StoredModel> = vec![];
    let mut stems: Vec<String> = vec![];
    let used = |files: &[RepoFile]| files.iter().filter_map(|f| last_use(&snapshot.join(&f.path))).max();
    for file in files.iter().filter(|f| is_model(&f.path)) {
        let stem = stem(&file.path);
        if stems.contains(&stem) {
            continue;
        }
        stems.push(stem);
        let Ok(choice) = choose(&files, &RepoPart::File(file.path.clone())) else { continue };
        let bytes = choice.files.iter().filter_map(|f| f.size).sum();
        let (name, path) = (format!("hf:{}/{}{revision}", repo.repo, file.path), snapshot.join(&file.path));
        found.push(StoredModel { name, store: ModelStore::Hub, path, bytes, used: used(&choice.files) });
    }
    if found.is_empty() && files.iter().any(|f| f.path.ends_with(".safetensors")) {
        let bytes = files.iter().filter_map(|f| f.size).sum();
        let name = format!("hf:{}{revision}", repo.repo);
        found.push(StoredModel {
            name,
            store: ModelStore::Hub,
            path: snapshot.clone(),
            bytes,
            used: used(&files),
        });
    }
    found
}

/// All models of the hub's cache, of Ollama's store and of LM Studio's folder.
pub fn list_all(cache: &HubCache, ollama: &OllamaStore, lm_studio: &LmStudioStore) -> Vec<StoredModel> {
    [cache.list(), ollama.list(), lm_studio.list()].concat()
}
