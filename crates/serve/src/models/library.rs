//! Models that requests may have fetched: those of the hub's cache. The disk is the list: what was fetched before the start, or
//! by another program, is offered like what a request fetched.

use super::{
    hub_refusal::refusal,
    pull::Pulls,
    slot::{ModelSlot, SlotOrigin},
};
use crate::{
    error::ApiError,
    options::{KeepAlive, ModelSettings, ServeOptions},
};
use lamina::hub::{Hub, ModelName, RepoName};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// What Ollama's clients write before the name of a repository.
const HOSTS: [&str; 2] = ["hf.co/", "huggingface.co/"];
/// The models of the hub's cache.
pub(super) struct ModelLibrary {
    pub hub: Hub,
    pub settings: ModelSettings,
    pub pulls: Pulls,
}

impl ModelLibrary {
    /// That of a server whose `options` allow it.
    pub fn of(options: &ServeOptions) -> Option<ModelLibrary> {
        let settings = ModelSettings { alias: vec![], ..options.model.clone() };
        let hub = lamina::hub_for(&settings.load);
        options.allow_pull.then(|| ModelLibrary { hub, settings, pulls: Pulls::default() })
    }

    /// A slot for every model in it, by the name that finds it there.
    pub fn slots(&self) -> Vec<Arc<ModelSlot>> {
        self.hub.cache.list().into_iter().map(|model| self.slot(model.name, model.path)).collect()
    }

    /// The model of that name, where it was fetched before.
    pub fn find(&self, name: &str) -> Option<Arc<ModelSlot>> {
        let path = self.path(&repo_name(name).ok()?)?;
        Some(self.slot(bare(name).to_owned(), path))
    }

    pub fn path(&self, repo: &RepoName) -> Option<PathBuf> {
        self.hub.cache.find(repo).ok().flatten()
    }

    fn slot(&self, name: String, path: PathBuf) -> Arc<ModelSlot> {
        let settings = self.settings.clone();
        let alive = settings.keep_alive.unwrap_or(KeepAlive::For(super::directory::KEEP));
        Arc::new(ModelSlot::new(name, SlotOrigin::Path(Some(path)), settings, alive))
    }

    /// The name of nothing but the model at `path`: that of its repository may mean others, too.
    pub fn own_name(&self, path: &Path) -> Option<RepoName> {
        let model = self.hub.cache.list().into_iter().find(|model| model.path == path)?;
        repo_name(&model.name).ok()
    }
}

/// A name as Ollama's clients complete it.
fn bare(name: &str) -> &str {
    name.strip_suffix(":latest").unwrap_or(name)
}

/// The repository of the hub that a client means: names of `lamina pull`, or `hf.co/org/repo:TAG`. An address of a file is
/// none: who may ask a server may not send it anywhere.
pub(super) fn repo_name(name: &str) -> Result<RepoName, ApiError> {
    let bare = bare(name);
    let page = HOSTS.iter().find_map(|host| bare.strip_prefix(host)).map(|repo| format!("hf:{repo}"));
    let parsed = ModelName::parse(page.as_deref().unwrap_or(bare)).map_err(refusal)?;
    match parsed.or_else(|| ModelName::meant(bare)) {
        Some(ModelName::Hub(repo)) => Ok(repo),
        _ => {
            let shown: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
            let text =
                format!("`{shown}` is no name of the hub, such as hf.co/org/repo:Q4_K_M or hf:org/repo");
            Err(ApiError::at("model", text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Cause;

    #[test]
    fn names_are_those_of_the_hub() {
        for (name, repo) in [
            ("hf:org/name:Q4_K_M", "org/name:Q4_K_M"),
            ("hf.co/org/name:q8_0", "org/name:q8_0"),
            ("hf.co/org/name:latest", "org/name"),
            ("org/name", "org/name"),
            ("hf:org/name/a.gguf@v1", "org/name/a.gguf@v1"),
        ] {
            assert_eq!(repo_name(name).map(|repo| repo.to_string()), Ok(repo.to_owned()), "{name}");
        }
        for name in ["llama3.2", "ollama:llama3.2", "https://10.0.0.1/a.gguf", "lmstudio:a/b", "hf:../x", ""]
        {
            let error = repo_name(name).expect_err(name);
            assert_eq!((error.cause, error.param.as_deref()), (Cause::Invalid, Some("model")), "{name}");
        }
    }
}
