//! Fetching a model for requests: one thread for all that ask for the same, until none of them waits for it.

use super::hub_refusal::refusal;
use crate::error::ApiError;
use lamina::{
    LoadOptions, ModelJudge,
    hub::{Hub, HubError, ModelName, PullProgress, PullWatch, RepoName},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::watch::{self, Receiver, Sender};

/// Models that are fetched at once.
const MOST: usize = 4;
/// When to ask again where so many are.
const AGAIN: Duration = Duration::from_secs(30);
/// Address space of a thread, with what it takes beside its stack.
const THREAD: usize = 4 << 20;

/// The pulls that run, by the names of their models.
#[derive(Default)]
pub(super) struct Pulls(Arc<Mutex<RunningPulls>>);

type RunningPulls = HashMap<String, Arc<Sender<PullState>>>;

/// What is known of a pull.
#[derive(Debug, Clone, Default)]
pub struct PullState {
    /// What was said.
    pub lines: Vec<String>,
    /// How far it is.
    pub progress: PullProgress,
    /// How it ended.
    pub end: Option<Result<(), ApiError>>,
}

/// A request's part in a pull; without any the pull stops, and what has arrived stays for the next one.
pub struct PullRun(Receiver<PullState>);

impl PullRun {
    /// What is known now.
    pub fn now(&mut self) -> PullState {
        self.0.borrow_and_update().clone()
    }

    /// Waits until more is known.
    pub async fn more(&mut self) {
        // A pull tells its end before it goes.
        _ = self.0.changed().await;
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// Why the model was not fetched.
    pub async fn finished(mut self) -> Result<(), ApiError> {
        loop {
            if let Some(end) = self.now().end {
                return end;
            }
            self.more().await;
        }
    }
}

impl Pulls {
    /// Joins the pull of a model, or begins it.
    ///
    /// # Errors
    /// When as many run as may, or there is no thread for it.
    pub fn join(&self, hub: &Hub, options: &LoadOptions, repo: RepoName) -> Result<PullRun, ApiError> {
        let mut running = lock(&self.0);
        let key = repo.to_string();
        if let Some(sender) = running.get(&key) {
            return Ok(PullRun(sender.subscribe()));
        }
        if running.len() >= MOST {
            return Err(ApiError::unavailable(format!("{MOST} models are fetched already"), AGAIN));
        }
        // A thread that gets its stack and nothing beside it ends the process.
        if !lamina_reserve::affordable(THREAD) {
            return Err(ApiError::unavailable("there is no memory for the thread that fetches", AGAIN));
        }
        let (sender, receiver) = watch::channel(PullState::default());
        let (pull, sender) = (self.0.clone(), Arc::new(sender));
        let job = PullThread { hub: hub.clone(), options: options.clone(), repo, sender: sender.clone() };
        let thread = std::thread::Builder::new().name("lamina-pull".into()).spawn(move || job.run(&pull));
        thread.map_err(|e| ApiError::unavailable(format!("no thread to fetch the model: {e}"), AGAIN))?;
        running.insert(key, sender);
        Ok(PullRun(receiver))
    }

    /// True while that model is fetched.
    pub fn is_running(&self, repo: &RepoName) -> bool {
        lock(&self.0).contains_key(&repo.to_string())
    }
}

/// What a thread fetches.
struct PullThread {
    hub: Hub,
    options: LoadOptions,
    repo: RepoName,
    sender: Arc<Sender<PullState>>,
}

impl PullThread {
    fn run(self, running: &Mutex<RunningPulls>) {
        let watch = PullSender(&self.sender);
        let judge = ModelJudge { watch: &watch, options: &self.options };
        let name = ModelName::Hub(self.repo.clone());
        loop {
            let done = lamina::shield(|| Ok(self.hub.locate(&name, &judge)));
            let mut running = lock(running);
            // Who came while it stopped for want of anybody waits for it now.
            if matches!(done, Ok(Err(HubError::Cancelled))) && self.sender.receiver_count() > 0 {
                continue;
            }
            running.remove(&self.repo.to_string());
            let end = done.map_err(ApiError::from).and_then(|done| done.map(drop).map_err(refusal));
            self.sender.send_modify(|state| state.end = Some(end));
            return;
        }
    }
}

/// Tells requests of their pull.
struct PullSender<'a>(&'a Sender<PullState>);

impl PullWatch for PullSender<'_> {
    fn say(&self, line: &str) {
        self.0.send_modify(|state| state.lines.push(line.to_owned()));
    }

    fn at(&self, progress: &PullProgress) -> bool {
        self.0.send_if_modified(|state| {
            let new = state.progress != *progress;
            state.progress.clone_from(progress);
            new
        });
        self.0.receiver_count() > 0
    }
}

fn lock(running: &Mutex<RunningPulls>) -> MutexGuard<'_, RunningPulls> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}
