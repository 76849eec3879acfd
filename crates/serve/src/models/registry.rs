//! Which models there are, and how names find them.

use super::{
    directory::Directory,
    lease::Lease,
    library::ModelLibrary,
    live::LiveModel,
    load::{self, LoadTerms},
    origin_slots::{slot, unique},
    slot::{LoadFailure, ModelSlot, Phase, SlotState},
};
use crate::{
    error::{ApiError, Cause},
    options::{ModelOrigin, ServeOptions},
};
use lamina::Policy;
use std::{
    sync::{Arc, PoisonError, RwLock, RwLockWriteGuard},
    time::{Duration, Instant},
};

/// The models of a server. Clones are the same.
#[derive(Clone)]
pub struct Registry(pub(super) Arc<ModelSet>);

/// See [`Registry`].
pub(super) struct ModelSet {
    slots: RwLock<Vec<Arc<ModelSlot>>>,
    /// Where more of them may come.
    directory: Option<Directory>,
    /// What requests may have fetched.
    pub library: Option<ModelLibrary>,
    /// So many of them, the first ones, are loaded at the start.
    pub named: usize,
    terms: LoadTerms,
    /// ModelSet in memory at once.
    most: usize,
    /// Who wants a model loaded waits here, in order of arrival.
    door: tokio::sync::Mutex<()>,
    /// A lone model of the command line answers to any name.
    any_name: bool,
}

/// How long a model that could not be loaded is not tried again.
const AGAIN: Duration = Duration::from_secs(10);
/// How often room is looked for while all models are used.
const TICK: Duration = Duration::from_millis(50);

/// What a name stands for.
struct FoundModel {
    slot: Arc<ModelSlot>,
    adapter: Option<String>,
}

impl Registry {
    /// The models that `options` name. Nothing is loaded yet.
    ///
    /// # Errors
    /// When there is no model at a path, or two models have one name.
    pub fn new(options: &ServeOptions) -> lamina::Result<Registry> {
        let lone = [ModelOrigin::Path { name: None, path: None, settings: None }];
        let none = options.models.is_empty() && options.models_dir.is_none();
        let origins = if none && options.replicas_join.is_none() { &lone[..] } else { &options.models };
        let mut slots = origins.iter().map(|o| slot(o, options)).collect::<lamina::Result<Vec<_>>>()?;
        let named = slots.len();
        let directory = Directory::of(options);
        if let Some(directory) = &directory {
            slots.extend(directory.slots()?);
        }
        unique(&slots)?;
        let policy = Policy {
            max_running: options.max_running,
            max_queue: options.max_queue,
            prefill_share: options.prefill_share.clamp(0.0, 0.99),
            goal: options.goal,
        };
        let grows = options.models_dir.is_some() || options.allow_pull;
        let most = options.max_models.unwrap_or(named + usize::from(grows)).max(1);
        let alone = slots.len() == 1 && !grows;
        // Where an adapter is asked for under its name, a name that is none would be another answer.
        let any_name = alone && slots.iter().all(|slot| slot.adapters().next().is_none());
        Ok(Registry(Arc::new(ModelSet {
            slots: RwLock::new(slots),
            directory,
            library: ModelLibrary::of(options),
            named,
            terms: LoadTerms { policy, records: !options.no_trace },
            most,
            door: tokio::sync::Mutex::default(),
            any_name,
        })))
    }

    /// All models.
    pub fn slots(&self) -> Vec<Arc<ModelSlot>> {
        self.0.slots.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All models, with those that have come into the directory or the library since, and without those that have left it.
    pub fn listed(&self) -> Vec<Arc<ModelSlot>> {
        self.look();
        self.slots()
    }

    /// Looks for changes in the directory and in the library. A directory that cannot be read now is as it was.
    fn look(&self) {
        let ModelSet { directory, library, .. } = &*self.0;
        let changed = directory.as_ref().filter(|d| library.is_some() || d.may_have_changed());
        let found = match changed.map(Directory::slots) {
            None if library.is_none() => return,
            Some(Err(_)) => return,
            Some(Ok(found)) => found,
            None => vec![],
        };
        let found: Vec<_> = found.into_iter().chain(library.iter().flat_map(ModelLibrary::slots)).collect();
        let mut slots = self.slots_mut();
        let there = |slot: &ModelSlot| found.iter().any(|f| f.path() == slot.path());
        let (named, mut at) = (self.0.named, 0);
        slots.retain(|slot| {
            at += 1;
            at <= named || there(slot) || slot.live().is_some() || slot.uses() > 0
        });
        for new in found {
            let taken = |slot: &Arc<ModelSlot>| {
                slot.answers_to(&new.name)
                    || slot.adapters().any(|a| a == new.name)
                    || (library.is_some() && slot.path() == new.path())
            };
            if !slots.iter().any(taken) {
                slots.push(new);
            }
        }
    }

    pub(super) fn slots_mut(&self) -> RwLockWriteGuard<'_, Vec<Arc<ModelSlot>>> {
        self.0.slots.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to load the models that are loaded at the start.
    pub fn begin(&self) {
        load::begin(&self.first(), self.0.terms);
    }

    /// The models that are loaded at the start.
    pub fn first(&self) -> Vec<Arc<ModelSlot>> {
        self.slots().into_iter().take(self.0.named.min(self.0.most)).collect()
    }

    /// The model of that name, loaded if need be; none: the only one. It waits for those that asked before.
    ///
    /// # Errors
    /// When there is no such model, or it cannot be loaded.
    pub async fn lease(&self, name: Option<&str>) -> Result<Lease, ApiError> {
        let FoundModel { slot, adapter } = self.find(name)?;
        let mut states = slot.watch();
        loop {
            states.borrow_and_update();
            if let Some((live, held)) = slot.enter() {
                if live.model.fault().is_none() {
                    return Ok(Lease::new(slot, live, held, adapter));
                }
                drop(held);
                self.revive(&slot, &live)?;
            }
            match slot.phase() {
                Phase::Failed(failure) if failure.since.elapsed() < AGAIN => {
                    return Err(unloadable(&slot, &failure));
                }
                Phase::Unloaded | Phase::Failed(_) => self.load(&slot).await?,
                Phase::Loaded(_) => {}
                // The sender lives in the slot, which this holds.
                Phase::Loading { .. } | Phase::Unloading(_) => _ = states.changed().await,
            }
        }
    }

    /// Loads a model, making room for it.
    async fn load(&self, slot: &Arc<ModelSlot>) -> Result<(), ApiError> {
        let _first = self.0.door.lock().await;
        loop {
            // Somebody who waited before may have loaded it.
            if matches!(slot.phase(), Phase::Loaded(_) | Phase::Loading { .. }) {
                return Ok(());
            }
            self.room(slot).await;
            load::begin(std::slice::from_ref(slot), self.0.terms);
            let mut states = slot.watch();
            while matches!(slot.phase(), Phase::Loading { .. }) {
                _ = states.changed().await;
            }
            match slot.phase() {
                // Without the others it may fit.
                Phase::Failed(failure) if failure.memory && self.evict().await => {}
                Phase::Failed(failure) => return Err(unloadable(slot, &failure)),
                _ => return Ok(()),
            }
        }
    }

    /// Waits until one more model may be in memory.
    async fn room(&self, slot: &Arc<ModelSlot>) {
        let there = |s: &&Arc<ModelSlot>| !Arc::ptr_eq(s, slot) && s.live().is_some();
        while self.slots().iter().filter(there).count() >= self.0.most {
            if !self.evict().await {
                tokio::time::sleep(TICK).await;
            }
        }
    }

    /// Unloads the model that nobody uses and that was used least recently; false when all are used.
    async fn evict(&self) -> bool {
        let mut idle = self.slots();
        idle.retain(|s| s.uses() == 0 && s.live().is_some());
        idle.sort_by_key(|s| s.last_use());
        for slot in &idle {
            if load::unload(slot) {
                let mut states = slot.watch();
                while matches!(slot.phase(), Phase::Unloading(_)) {
                    _ = states.changed().await;
                }
                return true;
            }
        }
        false
    }

    /// Unloads a model when its requests have ended, and waits for that.
    pub async fn unload(&self, slot: &Arc<ModelSlot>) {
        let mut states = slot.watch();
        while slot.live().is_some() && !slot.is_given() {
            load::unload(slot);
            states.borrow_and_update();
            if slot.live().is_some() {
                _ = states.changed().await;
            }
        }
    }

    /// Unloads models that nobody has used for as long as they are kept, again and again.
    pub async fn forget_idle(&self) {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = Instant::now();
            for slot in self.slots().iter().filter(|s| s.expires().is_some_and(|at| at <= now)) {
                load::unload(slot);
            }
        }
    }

    /// A model whose engine has ended: it is loaded again, unless that happens too often.
    fn revive(&self, slot: &Arc<ModelSlot>, dead: &Arc<LiveModel>) -> Result<(), ApiError> {
        let same = |s: &SlotState| matches!(&s.phase, Phase::Loaded(live) if Arc::ptr_eq(live, dead));
        let fault = || dead.model.fault().map_or_else(String::new, |f| f.to_string());
        if slot.is_given() {
            return Err(ApiError::fault(format!("the model has stopped: {}", fault())));
        }
        if slot.advance(Phase::Unloaded, same) && !slot.revive() {
            let failure = LoadFailure::new(format!("its engine has failed too often: {}", fault()), false);
            slot.advance(Phase::Failed(failure), |_| true);
        }
        Ok(())
    }

    /// The slot of that name; none: the only one.
    ///
    /// # Errors
    /// When there is no such model.
    pub fn slot(&self, name: Option<&str>) -> Result<Arc<ModelSlot>, ApiError> {
        self.find(name).map(|found| found.slot)
    }

    /// A name that is unknown may be that of a file that has come since.
    fn find(&self, name: Option<&str>) -> Result<FoundModel, ApiError> {
        let found = self.find_in(&self.slots(), name);
        match &found {
            Err(error) if error.cause == Cause::NoModel => {
                let later = self.find_in(&self.listed(), name);
                let fetched =
                    self.0.library.as_ref().zip(name).and_then(|(library, name)| library.find(name));
                match fetched.filter(|_| later.is_err()) {
                    Some(slot) => Ok(FoundModel { slot: self.put(slot, false), adapter: None }),
                    None => later,
                }
            }
            _ => found,
        }
    }

    fn find_in(&self, slots: &[Arc<ModelSlot>], name: Option<&str>) -> Result<FoundModel, ApiError> {
        let Some(name) = name else {
            return match slots {
                [only] => Ok(FoundModel { slot: only.clone(), adapter: None }),
                _ => Err(ApiError::at("model", format!("model is missing; known: {}", self.names()))),
            };
        };
        if name.is_empty() {
            return Err(ApiError::at("model", "model is empty, but must be the name of a model"));
        }
        if let Some(slot) = slots.iter().find(|s| s.answers_to(name)) {
            return Ok(FoundModel { slot: slot.clone(), adapter: None });
        }
        if let Some(slot) = slots.iter().find(|s| s.adapters().any(|a| a == name)) {
            return Ok(FoundModel { slot: slot.clone(), adapter: Some(name.to_owned()) });
        }
        match slots.first().filter(|_| self.0.any_name) {
            Some(slot) => Ok(FoundModel { slot: slot.clone(), adapter: None }),
            None => Err(self.missing(name)),
        }
    }

    pub(super) fn missing(&self, name: &str) -> ApiError {
        let shown: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
        let text = format!("there is no model `{shown}` here; known: {}", self.names());
        ApiError::new(Cause::NoModel, text).of("model")
    }

    /// Names of all models and adapters.
    fn names(&self) -> String {
        let slots = self.slots();
        let names = slots.iter().flat_map(|s| std::iter::once(s.name.as_str()).chain(s.adapters()));
        names.collect::<Vec<_>>().join(" ")
    }
}

fn unloadable(slot: &ModelSlot, failure: &LoadFailure) -> ApiError {
    let why = slot.without_paths(&failure.why);
    ApiError::unavailable(format!("the model cannot be loaded: {why}"), AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ModelSettings;
    use lamina::AdapterPath;
    use std::{fs, path::Path};

    fn packaged() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/lamina/models/lamina-tiny.gguf")
    }

    #[test]
    fn files_that_come_later_are_found_and_those_that_go_are_not() {
        let dir = tempfile::TempDir::new().expect("a folder");
        let options = ServeOptions { models_dir: Some(dir.path().to_owned()), ..ServeOptions::default() };
        let models = Registry::new(&options).expect("no models");
        let cause = |name| models.slot(Some(name)).map(|_| ()).map_err(|e| e.cause);
        assert_eq!(cause("later"), Err(Cause::NoModel));
        fs::copy(packaged(), dir.path().join("later.gguf")).expect("a copy");
        assert_eq!(cause("later"), Ok(()));
        assert_eq!(models.listed().len(), 1);
        fs::remove_file(dir.path().join("later.gguf")).expect("a file");
        assert_eq!(models.listed().len(), 0);
        assert_eq!(cause("later"), Err(Cause::NoModel));
    }

    #[test]
    fn a_lone_model_with_adapters_answers_to_names_that_are_known() {
        let named = |lora: Vec<AdapterPath>| {
            let settings = ModelSettings { lora, ..ModelSettings::default() };
            let models = vec![ModelOrigin::Path { name: Some("m".into()), path: None, settings: None }];
            Registry::new(&ServeOptions { models, model: settings, ..ServeOptions::default() })
                .expect("a model")
        };
        let adapter = || "style=/nowhere.gguf".parse::<AdapterPath>().expect("an adapter");
        let cause = |models: &Registry, name| models.slot(Some(name)).map(|_| ()).map_err(|e| e.cause);
        assert_eq!(cause(&named(vec![]), "gpt-4o"), Ok(()), "editors send fixed names");
        let models = named(vec![adapter()]);
        assert_eq!((cause(&models, "style"), cause(&models, "m")), (Ok(()), Ok(())));
        assert_eq!(cause(&models, "stile"), Err(Cause::NoModel));
    }
}
