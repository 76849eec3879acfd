//! Requests with large bodies, on a thread of their own: parsing, checking and tokenizing megabytes must not keep the
//! thread of HTTP from others, nor the pool that their short prompts need.

use crate::{
    call::{SMALL_BODY, in_turn},
    threads,
};
use http_body::Body;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{runtime::Runtime, sync::Semaphore, task::JoinHandle};

/// Handles requests with large bodies. Dropping it leaves what still runs on its pool to itself.
pub(super) struct LargeBodies {
    runtime: Option<Runtime>,
    /// One thread of the pool is always left to bodies that are not huge.
    turns: Arc<Semaphore>,
}

impl LargeBodies {
    /// The thread and its pool, which start at once and stay.
    ///
    /// # Errors
    /// When the system gives fewer threads.
    pub fn start() -> std::io::Result<LargeBodies> {
        Ok(LargeBodies { runtime: Some(threads::beside()?), turns: Arc::new(Semaphore::new(1)) })
    }

    /// True when a request of this body is handled here: it is long, or does not say how long it is.
    pub fn takes(body: &impl Body) -> bool {
        body.size_hint().upper().is_none_or(|bytes| bytes > SMALL_BODY as u64)
    }

    /// Handles a request; none when the handler panics. Dropping the future ends the handler.
    pub async fn handle<T: Send + 'static>(
        &self,
        handler: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let runtime = self.runtime.as_ref()?;
        EndedWithItsReader(runtime.spawn(in_turn(self.turns.clone(), handler))).await
    }
}

impl Drop for LargeBodies {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A task that ends when nobody waits for it.
struct EndedWithItsReader<T>(JoinHandle<T>);

impl<T> Future for EndedWithItsReader<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(context).map(Result::ok)
    }
}

impl<T> Drop for EndedWithItsReader<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
