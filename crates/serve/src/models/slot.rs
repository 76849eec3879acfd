//! A model that requests can ask for by name, whether it is in memory or not.

use super::{facts::ModelFacts, live::LiveModel};
use crate::{
    error::ApiError,
    options::{KeepAlive, ModelSettings},
};
use lamina::AdapterPath;
use std::{
    path::{MAIN_SEPARATOR, Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio::sync::watch;

/// How often an engine may fail within which time, and its model be loaded again.
const REVIVALS: usize = 3;
const REVIVAL_TIME: Duration = Duration::from_secs(600);

/// A model that requests can ask for by name.
pub struct ModelSlot {
    /// What answers call it.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// Where it comes from.
    pub(super) origin: SlotOrigin,
    /// How it is loaded and answers.
    pub settings: ModelSettings,
    /// Unix time at which the server learnt of it.
    pub created: u64,
    state: watch::Sender<SlotState>,
    keep: Mutex<KeepState>,
    /// What its files say, and when they were written.
    facts: Mutex<Option<(Option<SystemTime>, Arc<ModelFacts>)>>,
}

/// Where a model comes from.
pub(super) enum SlotOrigin {
    /// A checkpoint; none: the model inside the package.
    Path(Option<PathBuf>),
    /// It was loaded by whoever started the server, and stays.
    Given(lamina::Model),
}

/// Whether a model is in memory, and who uses it.
#[derive(Clone, Default)]
pub struct SlotState {
    /// Where it stands.
    pub phase: Phase,
    /// Requests that hold it.
    pub uses: usize,
    /// It has been in memory: where it is loaded again, a request waits for it.
    pub was_loaded: bool,
}

/// Where a model stands.
#[derive(Clone, Default)]
pub enum Phase {
    /// Not in memory.
    #[default]
    Unloaded,
    /// On its way.
    Loading {
        /// Part of the weights that is read, from 0 to 1.
        done: f32,
    },
    /// In memory.
    Loaded(Arc<LiveModel>),
    /// It goes when its last request has ended.
    Unloading(Arc<LiveModel>),
    /// It cannot be loaded.
    Failed(LoadFailure),
}

/// Why a model cannot be loaded.
#[derive(Debug, Clone)]
pub struct LoadFailure {
    /// In words.
    pub why: String,
    /// There is no room for it beside the others.
    pub memory: bool,
    /// When that was found.
    pub since: Instant,
}

impl LoadFailure {
    pub(super) fn new(why: String, memory: bool) -> LoadFailure {
        LoadFailure { why, memory, since: Instant::now() }
    }
}

impl Phase {
    /// Name in outputs.
    pub fn name(&self) -> &'static str {
        match self {
            Phase::Unloaded => "unloaded",
            Phase::Loading { .. } => "loading",
            Phase::Loaded(_) => "loaded",
            Phase::Unloading(_) => "unloading",
            Phase::Failed(_) => "failed",
        }
    }

    /// Names of all phases.
    pub const NAMES: [&str; 5] = ["unloaded", "loading", "loaded", "unloading", "failed"];
}

/// How long a model stays.
struct KeepState {
    alive: KeepAlive,
    last_use: Instant,
    /// When its engine failed and it was loaded again.
    revivals: Vec<Instant>,
}

impl ModelSlot {
    pub(super) fn new(
        name: String,
        origin: SlotOrigin,
        settings: ModelSettings,
        alive: KeepAlive,
    ) -> ModelSlot {
        ModelSlot {
            name,
            aliases: settings.alias.clone(),
            origin,
            settings,
            created: super::time::now(),
            state: watch::Sender::new(SlotState::default()),
            keep: Mutex::new(KeepState { alive, last_use: Instant::now(), revivals: vec![] }),
            facts: Mutex::new(None),
        }
    }

    /// True when requests may call it so. Ollama's clients end names in `:latest`.
    pub fn answers_to(&self, name: &str) -> bool {
        let bare = name.strip_suffix(":latest").unwrap_or(name);
        [name, bare].iter().any(|n| *n == self.name || self.aliases.iter().any(|a| a == n))
    }

    /// Names of its adapters.
    pub fn adapters(&self) -> impl Iterator<Item = &str> {
        self.settings.lora.iter().map(AdapterPath::called)
    }

    /// Where it stands now.
    pub fn phase(&self) -> Phase {
        self.state.borrow().phase.clone()
    }

    /// Whether it has been in memory.
    pub fn was_loaded(&self) -> bool {
        self.state.borrow().was_loaded
    }

    /// The model, where it is in memory.
    pub fn live(&self) -> Option<Arc<LiveModel>> {
        match &self.state.borrow().phase {
            Phase::Loaded(live) | Phase::Unloading(live) => Some(live.clone()),
            _ => None,
        }
    }

    /// What it is, by the model in memory or else by its files, which are read again when they have changed. It may take
    /// as long as reading a vocabulary.
    ///
    /// # Errors
    /// When the files are gone or broken.
    pub fn facts(&self) -> lamina::Result<Arc<ModelFacts>> {
        let path = match (&self.origin, self.live()) {
            (_, Some(live)) => return Ok(Arc::new(ModelFacts::of_live(&live))),
            (SlotOrigin::Given(_), None) => None,
            (SlotOrigin::Path(path), None) => path.as_deref(),
        };
        let written = path.and_then(|path| path.metadata().ok()?.modified().ok());
        let mut kept = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, facts)) = kept.as_ref().filter(|(at, _)| *at == written) {
            return Ok(facts.clone());
        }
        let facts = Arc::new(ModelFacts::of_file(path, &self.settings.load)?);
        *kept = Some((written, facts.clone()));
        Ok(facts)
    }

    /// True for the model inside the package.
    pub fn is_packaged(&self) -> bool {
        let own = matches!(&self.origin, SlotOrigin::Path(None));
        own || self.path().and_then(Path::file_name).is_some_and(|name| name == "lamina-tiny.gguf")
    }

    /// The file or folder that it is read from.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.origin {
            SlotOrigin::Path(path) => path.as_deref(),
            SlotOrigin::Given(_) => None,
        }
    }

    /// Follows its changes.
    pub fn watch(&self) -> watch::Receiver<SlotState> {
        self.state.subscribe()
    }

    /// Moves on to `phase` if `from` admits where it stands.
    pub(super) fn advance(&self, phase: Phase, from: impl FnOnce(&SlotState) -> bool) -> bool {
        self.state.send_if_modified(|state| {
            let admitted = from(state);
            if admitted {
                state.was_loaded |= matches!(phase, Phase::Loaded(_));
                state.phase = phase;
            }
            admitted
        })
    }

    /// One more use of it, if it is loaded.
    pub(super) fn enter(self: &Arc<ModelSlot>) -> Option<(Arc<LiveModel>, SlotUse)> {
        let mut entered = None;
        self.state.send_if_modified(|state| {
            if let Phase::Loaded(live) = &state.phase {
                state.uses += 1;
                entered = Some((live.clone(), SlotUse(self.clone())));
            }
            false
        });
        entered
    }

    /// A message for those who ask: of the paths of this machine it has the names of files only.
    pub fn without_paths(&self, message: &str) -> String {
        let paths = self.path().into_iter().chain(self.settings.lora.iter().map(|l| l.path.as_path()));
        let folders = paths.filter_map(Path::parent).filter(|folder| folder.parent().is_some());
        let cut =
            |text: String, folder: &Path| text.replace(&format!("{}{MAIN_SEPARATOR}", folder.display()), "");
        folders.fold(message.to_owned(), cut)
    }

    /// How long it stays without requests from now on.
    pub fn keep_alive(&self, alive: KeepAlive) {
        self.keep().alive = alive;
    }

    /// When it may go, if nobody asks for it before; none: never.
    pub fn expires(&self) -> Option<Instant> {
        let keep = self.keep();
        match (keep.alive, self.state.borrow().uses) {
            (KeepAlive::For(time), 0) => keep.last_use.checked_add(time),
            _ => None,
        }
    }

    /// When its last request ended, or it was loaded.
    pub fn last_use(&self) -> Instant {
        self.keep().last_use
    }

    /// It is used now, without a request that would hold it.
    pub(super) fn touch(&self) {
        self.keep().last_use = Instant::now();
    }

    /// Counts that its engine has failed; false when that happens too often to load it again.
    pub(super) fn revive(&self) -> bool {
        let mut keep = self.keep();
        keep.revivals.retain(|t| t.elapsed() < REVIVAL_TIME);
        keep.revivals.push(Instant::now());
        keep.revivals.len() <= REVIVALS
    }

    /// Requests that hold it.
    pub fn uses(&self) -> usize {
        self.state.borrow().uses
    }

    /// True when it was loaded by somebody else, who also ends it.
    pub fn is_given(&self) -> bool {
        matches!(self.origin, SlotOrigin::Given(_))
    }

    /// Refuses an adapter that it does not have.
    pub(super) fn check_adapter(&self, name: &str) -> Result<(), ApiError> {
        if self.adapters().any(|a| a == name) {
            return Ok(());
        }
        let known: Vec<_> = self.adapters().collect();
        let text = format!("there is no adapter `{name}` here; known: {}", known.join(" "));
        Err(ApiError::at("lora", text))
    }

    fn keep(&self) -> std::sync::MutexGuard<'_, KeepState> {
        self.keep.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a model in memory while it lives.
pub(super) struct SlotUse(Arc<ModelSlot>);

impl Drop for SlotUse {
    fn drop(&mut self) {
        self.0.keep().last_use = Instant::now();
        // Those who wait for the last use to end, and nobody else, care.
        self.0.state.send_if_modified(|state| {
            state.uses -= 1;
            state.uses == 0
        });
    }
}
