//! The models and the server of a replica, without connections.

use crate::{
    api,
    app::App,
    models::{Phase, Registry},
    options::ServeOptions,
    server::StartError,
    threads::beside,
};
use axum::Router;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};

/// How long the models may take that are loaded is not limited; how often they are looked at.
const TICK: Duration = Duration::from_millis(10);

/// The models and the server of a replica. Dropping it ends it at once.
pub(super) struct ReplicaEngine {
    pub app: App,
    /// There until it is dropped.
    runtime: Option<Runtime>,
    pub threads: Handle,
}

impl ReplicaEngine {
    /// Begins to load the models.
    ///
    /// # Errors
    /// When there is no such model, or the system gives no thread.
    pub fn start(mut options: ServeOptions) -> Result<ReplicaEngine, StartError> {
        options.quiet = true;
        let models = Registry::new(&options)?;
        let app = App::new(options, models).map_err(StartError::Thread)?;
        app.models.begin();
        let runtime = beside().map_err(StartError::Thread)?;
        let (idle, threads) = (app.models.clone(), runtime.handle().clone());
        threads.spawn(async move { idle.forget_idle().await });
        Ok(ReplicaEngine { app, runtime: Some(runtime), threads })
    }

    /// Waits until it can answer, as long as `keep` says so.
    ///
    /// # Errors
    /// Why a model cannot be loaded.
    pub fn wait_for_models(&self, mut keep: impl FnMut() -> bool) -> Result<(), StartError> {
        for slot in &self.app.models.first() {
            loop {
                match slot.phase() {
                    Phase::Loading { .. } if keep() => std::thread::sleep(TICK),
                    Phase::Failed(failure) => return Err(lamina::Error::Runtime(failure.why).into()),
                    _ => break,
                }
            }
        }
        Ok(())
    }

    /// What answers its requests.
    pub fn routes(&self) -> Router {
        api::routes().with_state(self.app.clone())
    }
}

impl Drop for ReplicaEngine {
    fn drop(&mut self) {
        // Connections are cut, and no answer is told to be cancelled: it goes on elsewhere.
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}
