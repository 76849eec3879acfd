//! Threads for pictures: to decode one takes longer than those that read requests have time for, to encode one much longer.

use crate::{
    error::{ApiError, Cause},
    threads,
};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{runtime::Runtime, sync::Semaphore};

/// Two threads: two pictures are decoded at a time, and one thread is left for that while others are encoded.
pub struct PicturePool {
    /// None once it is dropped.
    runtime: Option<Runtime>,
    encoder: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// A request that waits for the encoder.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PicturePool {
    /// The threads, which start at once and stay.
    ///
    /// # Errors
    /// When the system gives fewer threads.
    pub fn start() -> io::Result<PicturePool> {
        let runtime = Some(threads::for_pictures()?);
        Ok(PicturePool { runtime, encoder: Arc::new(Semaphore::new(1)), waiting: AtomicUsize::new(0) })
    }

    /// Decodes pictures.
    ///
    /// # Errors
    /// Those of the work; a panic in it is a fault.
    pub async fn decode<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let fault = || ApiError::fault("a fault inside Lamina, please report it");
        let runtime = self.runtime.as_ref().ok_or_else(fault)?;
        runtime.spawn_blocking(work).await.unwrap_or_else(|_| Err(fault()))
    }

    /// Encodes pictures, those of one request after those of another; no more than `most` requests wait.
    ///
    /// # Errors
    /// Those of the work; when as many wait as may.
    pub async fn encode<T: Send + 'static>(
        &self,
        most: usize,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(&self.waiting);
        if before > most {
            let text = format!("{before} requests with pictures wait, which is as many as may");
            return Err(ApiError::new(Cause::QueueFull, text));
        }
        // The semaphore is never closed.
        let turn = self.encoder.clone().acquire_owned().await.ok();
        drop(waiting);
        let encode = move || {
            let done = work();
            // Also where nobody waits for the work any more.
            drop(turn);
            done
        };
        self.decode(encode).await
    }
}

impl Drop for PicturePool {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
