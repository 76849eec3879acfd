//! Fetching a repository's files into the cache.

use crate::{
    cache::CachedRepo,
    choice::{ChosenFiles, choose},
    client::{Checksum, Counter, FileFacts, HubQuestion, PartialFile, Remote, Transfer},
    error::{HubError, Result},
    hub::Hub,
    name::{RepoName, is_inner_path},
    progress::{ModelPreview, PullProgress, PullWatch},
};
use lamina_base::{
    available_memory,
    files::{open_lock, read_text},
    human_bytes,
};
use std::{
    fs::File,
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
const GLANCE: Duration = Duration::from_millis(100);
/// What says what the model of a folder is.
const CONFIG: &str = "config.json";

/// What a name leads to on the hub, and what of it is here.
#[derive(Debug, Clone)]
pub struct PullPlan {
    /// The commit.
    pub commit: String,
    /// What it is opened by once all is here.
    pub path: PathBuf,
    /// Its files.
    pub files: Vec<PulledFile>,
    choice: ChosenFiles,
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
    etag: String,
}

/// What is told to whoever watches.
#[derive(Debug, Default)]
pub struct PullMeter {
    /// Bytes.
    pub counter: Arc<Counter>,
    size: AtomicU64,
    file: Mutex<String>,
}

impl PullPlan {
    /// Bytes of all files, and of those that are not here.
    pub fn bytes(&self) -> (u64, u64) {
        let sum = |files: &mut dyn Iterator<Item = &PulledFile>| files.filter_map(|f| f.size).sum();
        (sum(&mut self.files.iter()), sum(&mut self.files.iter().filter(|f| !f.is_here)))
    }
}

impl PullMeter {
    /// `size` bytes are to come, of `file`.
    pub fn begin(&self, file: &str, size: u64) {
        file.clone_into(&mut self.file.lock().unwrap_or_else(PoisonError::into_inner));
        self.size.store(size, Relaxed);
    }

    fn now(&self) -> PullProgress {
        PullProgress {
            file: self.file.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            done: self.counter.done.load(Relaxed),
            size: self.size.load(Relaxed),
            fetched: self.counter.fetched.load(Relaxed),
        }
    }
}

impl Hub {
    /// What a name leads to now. Nothing is fetched.
    ///
    /// # Errors
    /// When there is no such model, or the hub cannot be reached.
    pub fn plan(&self, name: &RepoName, watch: &dyn PullWatch) -> Result<PullPlan> {
        attend(watch, &PullMeter::default(), async {
            self.planned(&self.remote()?, name, self.pace.tries, watch).await
        })
    }

    pub(crate) fn hub_model(&self, name: &RepoName, watch: &dyn PullWatch) -> Result<PathBuf> {
        let here = self.cache.find(name)?;
        // A commit never changes.
        if let Some(found) = here.clone().filter(|_| is_commit(name.revision())) {
            return Ok(found);
        }
        let meter = PullMeter::default();
        attend(watch, &meter, async {
            let remote = self.remote()?;
            let tries = if here.is_some() { 1 } else { self.pace.tries };
            let plan = match self.planned(&remote, name, tries, watch).await {
                Err(e) if here.is_some() && e.is_transient() => {
                    watch.say(&e.to_string());
                    return self.here(name, "the hub cannot be asked", watch);
                }
                plan => plan?,
            };
            self.fetch(&remote, name, &plan, &meter, watch).await?;
            Ok(plan.path)
        })
    }

    pub(crate) fn remote(&self) -> Result<Remote> {
        Remote::new(&self.settings, &self.pace)
    }

    async fn planned(
        &self,
        remote: &Remote,
        name: &RepoName,
        tries: u32,
        watch: &dyn PullWatch,
    ) -> Result<PullPlan> {
        let pace = crate::client::Pace { tries, ..self.pace.clone() };
        let facts = pace.persist(async || remote.repo(&name.repo, name.revision()).await).await?;
        let wrong = |(problem, files)| HubError::Choice { repo: name.repo.clone(), problem, files };
        // Names that lead out of a folder are nobody's model.
        let sound: Vec<_> = facts.files.into_iter().filter(|f| is_inner_path(&f.path)).collect();
        let choice = choose(&sound, &name.part).map_err(wrong)?;
        if let [first, ..] = &choice.others[..] {
            let taken = choice.files.first().map_or(first, |f| &f.path);
            watch.say(&format!("{}: {taken} is taken of {}", name.repo, choice.others.join(", ")));
        }
        let repo = self.cache.repo(&name.repo);
        let mut files = vec![];
        for file in &choice.files {
            let here = repo.snapshot(&facts.commit).join(&file.path).metadata().ok().map(|m| m.len());
            if here.is_some() && (file.size.is_none() || file.size == here) {
                files.push(PulledFile {
                    path: file.path.clone(),
                    size: here,
                    is_here: true,
                    etag: String::new(),
                });
                continue;
            }
            let asked = HubQuestion { repo: &name.repo, revision: &facts.commit, file: &file.path };
            let told = pace.persist(async || remote.facts(asked).await).await?;
            let nameless =
                || HubError::Answer { url: file.path.clone(), problem: "the server gives it no etag".into() };
            let etag = told.etag.ok_or_else(nameless)?;
            repo.blob(&etag)?;
            files.push(PulledFile {
                path: file.path.clone(),
                size: told.size.or(file.size),
                is_here: false,
                etag,
            });
        }
        Ok(PullPlan { path: repo.path_of(&facts.commit, &choice), commit: facts.commit, files, choice })
    }

    async fn fetch(
        &self,
        remote: &Remote,
        name: &RepoName,
        plan: &PullPlan,
        meter: &PullMeter,
        watch: &dyn PullWatch,
    ) -> Result<()> {
        let repo = self.cache.repo(&name.repo);
        repo.make()?;
        let missing = |file: &&PulledFile| !file.is_here && !repo.blob(&file.etag).is_ok_and(|b| b.is_file());
        if plan.files.iter().any(|file| missing(&file)) {
            self.tell(name, plan, &repo, watch)?;
        }
        let (size, later) = plan.bytes();
        meter.counter.done.fetch_add(size - later, Relaxed);
        // What says whether the rest is worth it comes first.
        let first = |file: &&PulledFile| plan.choice.is_folder && file.path == CONFIG;
        let (first, rest): (Vec<_>, Vec<_>) = plan.files.iter().filter(|f| !f.is_here).partition(first);
        for file in first.into_iter().chain(rest) {
            let transfer = self.transfer(remote, name, plan, file, meter)?;
            if missing(&file) && !plan.choice.is_folder && file.path == plan.choice.files[0].path {
                self.judge(&transfer, name, watch).await?;
            }
            meter.begin(&file.path, size);
            let path = self.blob(&repo, plan, file, transfer, watch).await?;
            if plan.choice.is_folder && file.path == CONFIG {
                let text = read_text(&path).map_err(HubError::file("read", &path))?;
                let unfit = |why| HubError::Unfit { name: format!("hf:{name}"), why };
                watch.judge(&ModelPreview::Config(&text)).map_err(unfit)?;
            }
        }
        repo.note_commit(name.revision(), &plan.commit)
    }

    /// Says what is about to come, and refuses what the disk has no room for.
    fn tell(&self, name: &RepoName, plan: &PullPlan, repo: &CachedRepo, watch: &dyn PullWatch) -> Result<()> {
        let (size, later) = plan.bytes();
        let left = plan
            .files
            .iter()
            .filter(|f| !f.is_here)
            .filter_map(|f| Some(PartialFile::left(&repo.blob(&f.etag).ok()?, f.size)));
        let needed = later.saturating_sub(left.sum());
        let free = self
            .room(&repo.folder, needed)?
            .map_or(String::new(), |free| format!(", {} free on disk", human_bytes(free)));
        let memory = available_memory().map_or("", |memory| match size <= memory {
            true => "; its weights fit into memory",
            false => "; more than the free memory: weights will be read from disk in every step",
        });
        let files = if plan.files.len() == 1 {
            plan.files[0].path.clone()
        } else {
            format!("{} files", plan.files.len())
        };
        watch.say(&format!(
            "fetching hf:{name}: {files}, {} ({} to come{free}){memory}",
            human_bytes(size),
            human_bytes(needed)
        ));
        Ok(())
    }

    /// Bytes that are free where `folder` is; an error where they are fewer than needed.
    pub(crate) fn room(&self, folder: &std::path::Path, needed: u64) -> Result<Option<u64>> {
        let Some((free, _)) = (self.pace.free)(folder) else { return Ok(None) };
        match needed > free {
            true => Err(HubError::Space { folder: folder.to_owned(), needed, free }),
            false => Ok(Some(free)),
        }
    }

    fn transfer(
        &self,
        remote: &Remote,
        name: &RepoName,
        plan: &PullPlan,
        file: &PulledFile,
        meter: &PullMeter,
    ) -> Result<Transfer> {
        let asked = HubQuestion { repo: &name.repo, revision: &plan.commit, file: &file.path };
        Ok(Transfer {
            remote: remote.clone(),
            address: remote.file_address(asked)?,
            file: file.path.clone(),
            repo: name.repo.clone(),
            facts: FileFacts { etag: Some(file.etag.clone()), size: file.size, ..FileFacts::default() },
            sum: Checksum::of_etag(&file.etag),
            pace: self.pace.clone(),
            counter: meter.counter.clone(),
        })
    }

    /// Shows whoever watches the beginning of a large GGUF file.
    async fn judge(&self, transfer: &Transfer, name: &RepoName, watch: &dyn PullWatch) -> Result<()> {
        if transfer.facts.size.is_none_or(|size| size <= self.pace.preview) {
            return Ok(());
        }
        let beginning = transfer.beginning(self.pace.preview).await?;
        let unfit = |why| HubError::Unfit { name: format!("hf:{name}"), why };
        watch.judge(&ModelPreview::Gguf(&beginning)).map_err(unfit)
    }

    /// Has a blob in the cache and its link in the snapshot.
    async fn blob(
        &self,
        repo: &CachedRepo,
        plan: &PullPlan,
        file: &PulledFile,
        transfer: Transfer,
        watch: &dyn PullWatch,
    ) -> Result<PathBuf> {
        let blob = repo.blob(&file.etag)?;
        let _lock = held(repo.lock(&file.etag)?, &file.path, watch).await?;
        // Another program may have fetched it meanwhile.
        if !blob.is_file() {
            transfer.run(&blob).await?;
        } else {
            transfer.counter.done.fetch_add(file.size.unwrap_or(0), Relaxed);
        }
        repo.link(&plan.commit, &file.path, &file.etag)
    }
}

/// The lock of a blob, once no other program holds it.
async fn held(path: PathBuf, file: &str, watch: &dyn PullWatch) -> Result<File> {
    let lock = open_lock(&path).map_err(HubError::file("lock", &path))?;
    let mut told = false;
    while let Err(e) = lock.try_lock() {
        match e {
            std::fs::TryLockError::WouldBlock => {}
            // File systems without locks.
            std::fs::TryLockError::Error(_) => break,
        }
        if !std::mem::replace(&mut told, true) {
            watch.say(&format!("another program fetches {file}: waiting for it"));
        }
        tokio::time::sleep(GLANCE).await;
    }
    Ok(lock)
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

fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|b| b.is_ascii_hexdigit())
}
