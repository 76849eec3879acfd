//! The pool of threads beside the one that handles a request.

use crate::error::ApiError;
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{sync::Semaphore, task::spawn_blocking, task_local};

/// Requests with bodies of more bytes take turns at the pool, and their memory goes back to the system.
const HUGE: usize = 1 << 20;

task_local! {
    /// The body of a request that is handled beside the thread of HTTP.
    static LOAD: BodyLoad;
}

struct BodyLoad {
    turns: Arc<Semaphore>,
    bytes: AtomicUsize,
}

impl BodyLoad {
    fn is_huge(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > HUGE
    }
}

/// Handles a request whose body may be huge: no more threads of the pool work for all of those than `turns` has permits.
pub async fn in_turn<T>(turns: Arc<Semaphore>, handler: impl Future<Output = T>) -> T {
    let load = BodyLoad { turns, bytes: AtomicUsize::new(0) };
    let tidied = async {
        let done = handler.await;
        if LOAD.with(BodyLoad::is_huge) {
            spawn_blocking(lamina_reserve::trim);
        }
        done
    };
    LOAD.scope(load, tidied).await
}

/// Notes how long the body of the request is that is handled.
pub(super) fn has_body_of(bytes: usize) {
    // On the thread of HTTP nobody asks.
    _ = LOAD.try_with(|load| load.bytes.store(bytes, Ordering::Relaxed));
}

/// Runs work of milliseconds, such as templates and tokenizing, on the pool of the thread that handles the request.
///
/// # Errors
/// Those of the work; a panic in it is a fault.
pub async fn pooled<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let turns = LOAD.try_with(|load| load.is_huge().then(|| load.turns.clone())).ok().flatten();
    let turn = match turns {
        // The semaphore is never closed.
        Some(turns) => turns.acquire_owned().await.ok(),
        None => None,
    };
    let joined = spawn_blocking(move || {
        let done = work();
        // Also where nobody waits for the work any more.
        drop(turn);
        done
    });
    joined.await.unwrap_or_else(|_| Err(ApiError::fault("a fault inside Lamina, please report it")))
}
