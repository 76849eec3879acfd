//! From a name to the files of a model.

use crate::{
    Pace,
    cache::HubCache,
    error::{HubError, Result},
    lm_studio::LmStudioStore,
    name::{ModelName, RepoName},
    ollama::OllamaStore,
    progress::PullWatch,
    settings::{HubSettings, OfflineBy},
};
use std::path::PathBuf;

/// The hub, its cache, and the stores of other programs.
#[derive(Debug, Clone)]
pub struct Hub {
    /// Where things are.
    pub settings: HubSettings,
    /// What was fetched.
    pub cache: HubCache,
    /// Ollama's store.
    pub ollama: OllamaStore,
    /// LM Studio's folder.
    pub lm_studio: LmStudioStore,
    /// How files are fetched.
    pub pace: Pace,
    /// GGUF models come with the encoder of pictures or sound that lies beside them.
    pub encoders: bool,
}

impl Hub {
    /// As the environment has it.
    pub fn of_the_environment() -> Hub {
        Hub::new(HubSettings::of_the_environment())
    }

    /// With these settings.
    pub fn new(settings: HubSettings) -> Hub {
        Hub {
            cache: HubCache::new(&settings.cache),
            settings,
            encoders: true,
            ollama: OllamaStore::of_the_environment(),
            lm_studio: LmStudioStore::of_the_environment(),
            pace: Pace::default(),
        }
    }

    /// The same, which fetches encoders beside GGUF models, or leaves them.
    #[must_use]
    pub fn with_encoders(self, encoders: bool) -> Hub {
        Hub { encoders, ..self }
    }

    /// The same, which fetches nothing where `offline` says so.
    #[must_use]
    pub fn offline(mut self, offline: bool) -> Hub {
        if offline {
            self.settings.offline.get_or_insert(OfflineBy::Caller);
        }
        self
    }

    /// The file or folder of a model, which is fetched where it is not here yet. It waits for the network, with pauses after
    /// which what is missing alone is asked for again.
    ///
    /// # Errors
    /// When there is no such model, it cannot be fetched, or `watch` finds it unfit or gives up.
    pub fn locate(&self, name: &ModelName, watch: &dyn PullWatch) -> Result<PathBuf> {
        match name {
            ModelName::Ollama(name) => {
                let found = self.ollama.find(name)?;
                watch.say("Ollama's own template and parameters are not read: those of the file itself hold");
                Ok(found)
            }
            ModelName::LmStudio(name) => self.lm_studio.find(name),
            ModelName::Hub(repo) => match self.settings.offline {
                Some(by) => self.here(repo, by.why(), watch),
                None => self.hub_model(repo, watch),
            },
            ModelName::Url(url) => self.url_model(url, watch),
        }
    }

    /// A model that was fetched before.
    pub(crate) fn here(&self, name: &RepoName, why: &'static str, watch: &dyn PullWatch) -> Result<PathBuf> {
        let missing =
            || HubError::NotHere { name: format!("hf:{name}"), missing: self.cache.missing(name), why };
        let found = self.cache.find(name)?.ok_or_else(missing)?;
        watch.say(&format!("{why}: what was fetched before is used"));
        Ok(found)
    }
}
