//! What is fetched, and what is told of it meanwhile.

use crate::{
    choice::ChosenFiles,
    client::{Checksum, Counter, Remote},
    error::{HubError, Result},
    name::RepoName,
    progress::{PullProgress, PullWatch},
};
use std::{
    future::Future,
    path::PathBuf,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// How often whoever watches hears how far it is.
pub(crate) const GLANCE: Duration = Duration::from_millis(100);
/// What says what the model of a folder is.
pub(crate) const CONFIG: &str = "config.json";

/// What a name leads to on the hub, and what of it is here.
#[derive(Debug, Clone)]
pub struct PullPlan {
    /// The commit.
    pub commit: String,
    /// What it is opened by once all is here.
    pub path: PathBuf,
    /// Its files.
    pub files: Vec<PulledFile>,
    pub(crate) choice: ChosenFiles,
}

/// A file of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct PulledFile {
    /// Inside of the repository.
    pub path: String,
    /// Bytes, where they are told.
    pub size: Option<u64>,
    /// It is in its snapshot.
    pub is_here: bool,
    pub(crate) etag: String,
}

/// What is told to whoever watches.
#[derive(Debug, Default)]
pub struct PullMeter {
    /// Bytes.
    pub counter: Arc<Counter>,
    size: AtomicU64,
    file: Mutex<(String, Option<String>)>,
}

impl PullPlan {
    /// The model is the folder that its files lie in.
    pub(crate) fn is_folder(&self) -> bool {
        self.choice.is_folder
    }

    /// Bytes of all files, and of those that are not here.
    pub fn bytes(&self) -> (u64, u64) {
        let sum = |files: &mut dyn Iterator<Item = &PulledFile>| files.filter_map(|f| f.size).sum();
        (sum(&mut self.files.iter()), sum(&mut self.files.iter().filter(|f| !f.is_here)))
    }
}

impl PullMeter {
    /// `size` bytes are to come, of `file`, whose etag is a checksum where the hub knows one.
    pub fn begin(&self, file: &str, etag: &str, size: u64) {
        let digest = match Checksum::of_etag(etag) {
            Checksum::Sha256(sum) => Some(format!("sha256:{sum}")),
            _ => None,
        };
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = (file.to_owned(), digest);
        self.size.store(size, Relaxed);
    }

    pub(crate) fn now(&self) -> PullProgress {
        let (file, digest) = self.file.lock().unwrap_or_else(PoisonError::into_inner).clone();
        PullProgress {
            file,
            digest,
            done: self.counter.done.load(Relaxed),
            size: self.size.load(Relaxed),
            fetched: self.counter.fetched.load(Relaxed),
        }
    }
}

/// A pull that has not begun.
#[derive(Clone, Copy)]
pub(crate) struct PullJob<'a> {
    pub remote: &'a Remote,
    pub name: &'a RepoName,
    pub plan: &'a PullPlan,
    pub meter: &'a PullMeter,
    pub watch: &'a dyn PullWatch,
}

/// What `work` gives, while `watch` hears how far it is and may give up.
pub fn attend<T>(
    watch: &dyn PullWatch,
    meter: &PullMeter,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|e| HubError::Connection(format!("no means to wait for a network: {e}")))?;
    let done = runtime.block_on(async {
        let mut work = pin!(work);
        loop {
            if let Ok(done) = tokio::time::timeout(GLANCE, work.as_mut()).await {
                return done;
            }
            if !watch.at(&meter.now()) {
                return Err(HubError::Cancelled);
            }
        }
    });
    watch.at(&meter.now());
    // Nobody waits for the name of a host to be found any more.
    runtime.shutdown_background();
    done
}
