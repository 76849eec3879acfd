//! Fetching a repository's files into the cache.

use crate::{
    cache::CachedRepo,
    choice::{choose, encoder_beside},
    client::{Checksum, FileFacts, HubQuestion, PartialFile, Remote, Transfer},
    error::{HubError, Result},
    hub::Hub,
    name::{RepoName, RepoPart, is_inner_path},
    progress::PullWatch,
    pull_job::{GLANCE, PullJob, PullMeter, PullPlan, PulledFile, attend},
};
use lamina_base::{available_memory, files::open_lock, human_bytes};
use std::{fs::File, path::PathBuf, sync::atomic::Ordering::Relaxed};

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
            self.fetch(PullJob { remote: &remote, name, plan: &plan, meter: &meter, watch }).await?;
            Ok(plan.path)
        })
    }

    pub(crate) fn remote(&self) -> Result<Remote> {
        if let Some(by) = self.settings.offline {
            return Err(HubError::Offline { why: by.why() });
        }
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
        let mut choice = choose(&sound, &name.part).map_err(wrong)?;
        let model = choice.files.first().filter(|_| self.encoders && !choice.is_folder);
        // A file that is named is meant alone, and a model that is here is as whole as it was.
        let model = model.filter(|_| !matches!(name.part, RepoPart::File(_)));
        let snapshot = self.cache.repo(&name.repo).snapshot(&facts.commit);
        let is_here = choice.files.iter().all(|file| snapshot.join(&file.path).is_file());
        let encoder =
            model.filter(|_| !is_here).and_then(|model| encoder_beside(&sound, &model.path)).cloned();
        let own = encoder.as_ref().map(|encoder| encoder.path.clone());
        choice.files.extend(encoder);
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
        // The encoder comes first: whoever is cut off behind it goes on with the model.
        files.sort_by_key(|file| Some(&file.path) != own.as_ref());
        Ok(PullPlan { path: repo.path_of(&facts.commit, &choice), commit: facts.commit, files, choice })
    }

    async fn fetch(&self, job: PullJob<'_>) -> Result<()> {
        let PullJob { name, plan, meter, watch, .. } = job;
        let repo = self.cache.repo(&name.repo);
        repo.make()?;
        let missing = |file: &PulledFile| !file.is_here && !repo.blob(&file.etag).is_ok_and(|b| b.is_file());
        if plan.files.iter().any(missing) {
            let room = self.needed_room(plan, &repo)?;
            // What says whether the rest is worth it comes first.
            let fit = self.preview(job).await?;
            tell(name, plan, room, fit, watch);
        }
        let (size, later) = plan.bytes();
        meter.counter.done.fetch_add(size - later, Relaxed);
        for file in plan.files.iter().filter(|f| !f.is_here) {
            meter.begin(&file.path, &file.etag, size);
            self.blob(&repo, plan, file, self.transfer(job, file)?, watch).await?;
        }
        repo.note_commit(name.revision(), &plan.commit)
    }

    /// Bytes that are to come, and those that are free for them; an error where these are fewer.
    fn needed_room(&self, plan: &PullPlan, repo: &CachedRepo) -> Result<(u64, Option<u64>)> {
        let left = plan
            .files
            .iter()
            .filter(|f| !f.is_here)
            .filter_map(|f| Some(PartialFile::left(&repo.blob(&f.etag).ok()?, f.size)));
        let needed = plan.bytes().1.saturating_sub(left.sum());
        Ok((needed, self.room(&repo.folder, needed)?))
    }

    /// Bytes that are free where `folder` is; an error where they are fewer than needed.
    pub(crate) fn room(&self, folder: &std::path::Path, needed: u64) -> Result<Option<u64>> {
        let Some((free, _)) = (self.pace.free)(folder) else { return Ok(None) };
        match needed > free {
            true => Err(HubError::Space { folder: folder.to_owned(), needed, free }),
            false => Ok(Some(free)),
        }
    }

    pub(crate) fn transfer(&self, job: PullJob<'_>, file: &PulledFile) -> Result<Transfer> {
        let PullJob { remote, name, plan, meter, .. } = job;
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

/// Says what is about to come, and whether it fits; by the sizes of files where nothing better is known.
fn tell(
    name: &RepoName,
    plan: &PullPlan,
    (needed, free): (u64, Option<u64>),
    fit: Option<String>,
    watch: &dyn PullWatch,
) {
    let size = plan.bytes().0;
    let free = free.map_or(String::new(), |free| format!(", {} free on disk", human_bytes(free)));
    let by_size = |memory| match size <= memory {
        true => "its weights fit into memory".to_owned(),
        false => "more than the free memory: weights will be read from disk in every step".to_owned(),
    };
    let fit = fit.or_else(|| available_memory().map(by_size)).map_or(String::new(), |fit| format!("; {fit}"));
    let files = match &plan.files[..] {
        [one] => one.path.clone(),
        files => format!("{} files", files.len()),
    };
    let (size, needed) = (human_bytes(size), human_bytes(needed));
    watch.say(&format!("fetching hf:{name}: {files}, {size} ({needed} to come{free}){fit}"));
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

fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|b| b.is_ascii_hexdigit())
}
