//! What requests do with the library: fetch models, and remove them.

use super::{
    hub_refusal::refusal,
    library::{ModelLibrary, repo_name},
    pull::PullRun,
    registry::Registry,
    slot::ModelSlot,
};
use crate::error::ApiError;
use std::{path::Path, sync::Arc};

impl Registry {
    /// Fetches a model of the hub, or joins who does that already.
    ///
    /// # Errors
    /// When that is not allowed, or the name is none.
    pub fn pull(&self, name: &str) -> Result<PullRun, ApiError> {
        let library = self.library()?;
        library.pulls.join(&library.hub, &library.settings.load, repo_name(name)?)
    }

    /// A model that was fetched under this name is listed under it.
    pub fn admit(&self, name: &str) {
        if let Some(slot) = self.library().ok().and_then(|library| library.find(name)) {
            self.put(slot, true);
        }
    }

    /// Removes a model that was fetched, once its requests have ended.
    ///
    /// # Errors
    /// When there is none of that name, it is fetched just now, or the system refuses.
    pub async fn remove(&self, name: &str) -> Result<(), ApiError> {
        let library = self.library()?;
        let repo = repo_name(name)?;
        if library.pulls.is_running(&repo) {
            return Err(ApiError::at("model", "this model is fetched just now: end that first"));
        }
        let path = library.path(&repo).ok_or_else(|| self.missing(name))?;
        let slots = self.slots_at(&path);
        if slots.iter().any(|slot| self.is_named(slot)) {
            return Err(ApiError::at("model", "this model was named when the server started: it stays"));
        }
        for slot in &slots {
            self.unload(slot).await;
        }
        let own = library.own_name(&path).ok_or_else(|| self.missing(name))?;
        let cache = library.hub.cache.clone();
        let done = tokio::task::spawn_blocking(move || cache.remove(&own, false)).await;
        done.map_err(|_| ApiError::fault("a fault inside Lamina, please report it"))?.map_err(refusal)?;
        self.forget(&slots);
        Ok(())
    }

    /// Has a model of the library in the list, and gives its slot: the one that is there already, unless nobody uses that and
    /// the model is to be listed under its new name.
    pub(super) fn put(&self, new: Arc<ModelSlot>, renames: bool) -> Arc<ModelSlot> {
        let named = self.0.named;
        let mut slots = self.slots_mut();
        let old = slots.iter_mut().enumerate().find(|(_, slot)| slot.path() == new.path());
        match old {
            None => slots.push(new.clone()),
            Some((i, slot)) if renames && i >= named && slot.live().is_none() && slot.uses() == 0 => {
                *slot = new.clone();
            }
            Some((_, slot)) => return slot.clone(),
        }
        new
    }

    /// The slots of the model at `path`.
    fn slots_at(&self, path: &Path) -> Vec<Arc<ModelSlot>> {
        self.slots().into_iter().filter(|slot| slot.path() == Some(path)).collect()
    }

    /// True for a model that was named at the start.
    fn is_named(&self, slot: &Arc<ModelSlot>) -> bool {
        self.slots().iter().take(self.0.named).any(|named| Arc::ptr_eq(named, slot))
    }

    /// Lists these no more.
    fn forget(&self, gone: &[Arc<ModelSlot>]) {
        self.slots_mut().retain(|slot| !gone.iter().any(|gone| Arc::ptr_eq(gone, slot)));
    }

    fn library(&self) -> Result<&ModelLibrary, ApiError> {
        let why = "this server fetches and removes no models: start it with --allow-pull, or give it files, or a folder \
                   with --models-dir";
        self.0.library.as_ref().ok_or_else(|| ApiError::unsupported(why))
    }
}
