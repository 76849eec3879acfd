//! Threads for pictures and sounds: to decode one takes longer than those that read requests have time for.

use crate::{error::ApiError, threads};
use std::io;
use tokio::runtime::Runtime;

/// Two threads: two of them are decoded at a time.
pub struct MediaPool {
    /// None once it is dropped.
    runtime: Option<Runtime>,
}

impl MediaPool {
    /// The threads, which start at once and stay.
    ///
    /// # Errors
    /// When the system gives fewer threads.
    pub fn start() -> io::Result<MediaPool> {
        Ok(MediaPool { runtime: Some(threads::for_media()?) })
    }

    /// Decodes one, or hashes its pixels or samples.
    ///
    /// # Errors
    /// Those of the work; a panic in it is a fault.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let fault = || ApiError::fault("a fault inside Lamina, please report it");
        let runtime = self.runtime.as_ref().ok_or_else(fault)?;
        runtime.spawn_blocking(work).await.unwrap_or_else(|_| Err(fault()))
    }
}

impl Drop for MediaPool {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
