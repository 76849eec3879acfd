//! How files are fetched: in which pieces, how many at once, and with how much patience.

use crate::error::{HubError, Result};
use std::{path::Path, time::Duration};

/// How files are fetched.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Bytes of a piece.
    pub chunk: u64,
    /// Pieces at once.
    pub at_once: usize,
    /// How often a request is tried that brings nothing.
    pub tries: u32,
    /// The pause before the second try; each further one is three times as long.
    pub pause: Duration,
    /// A server that says nothing for so long is gone.
    pub silence: Duration,
    /// Bytes of a GGUF file that are read before the rest.
    pub preview: u64,
    /// Bytes that are free, and bytes in all, where a folder is.
    pub free: fn(&Path) -> Option<(u64, u64)>,
}

/// The longest pause that a server may ask for.
const MOST_PAUSE: Duration = Duration::from_secs(120);

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            chunk: 64 << 20,
            at_once: 4,
            tries: 5,
            pause: Duration::from_millis(500),
            silence: Duration::from_secs(30),
            preview: 2 << 20,
            free: lamina_disk::disk_space,
        }
    }
}

impl Pace {
    /// Waits after try number `tries` that failed for `why`.
    ///
    /// # Errors
    /// `why`, where it is final or was the last try.
    pub async fn wait(&self, tries: u32, why: HubError) -> Result<()> {
        if tries >= self.tries || !why.is_transient() {
            return Err(why);
        }
        let pause = self.pause * 3u32.saturating_pow(tries.saturating_sub(1));
        let wanted = match &why {
            HubError::Status { after: Some(after), .. } if *after > MOST_PAUSE => return Err(why),
            HubError::Status { after: Some(after), .. } => pause.max(*after),
            _ => pause,
        };
        tokio::time::sleep(wanted.min(MOST_PAUSE)).await;
        Ok(())
    }

    /// What `work` gives, with patience.
    ///
    /// # Errors
    /// The last one.
    pub async fn persist<T>(&self, mut work: impl AsyncFnMut() -> Result<T>) -> Result<T> {
        let mut tries = 0;
        loop {
            tries += 1;
            match work().await {
                Err(why) => self.wait(tries, why).await?,
                done => return done,
            }
        }
    }
}
