//! One file over the network: pieces side by side, each in its place, again where a connection ends.

use super::{
    digest::{Checksum, DigestThread},
    pace::Pace,
    partial_file::PartialFile,
    remote::{FileFacts, HubQuestion, Remote, not_asked, text},
};
use crate::error::{HubError, Result};
use lamina_http::{
    HttpAddress, HttpAnswer, HttpRequest, StatusCode,
    header::{CONTENT_RANGE, HeaderValue, RANGE},
};
use std::{
    collections::VecDeque,
    ops::Range,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use tokio::task::JoinSet;

/// Bytes of all files, counted while they arrive.
#[derive(Debug, Default)]
pub struct Counter {
    /// Those that are in their place.
    pub done: AtomicU64,
    /// Those that came over the network.
    pub fetched: AtomicU64,
}

/// What is fetched.
#[derive(Debug, Clone)]
pub struct Transfer {
    /// Who is asked.
    pub remote: Remote,
    /// Where it lies.
    pub address: HttpAddress,
    /// Its name in messages.
    pub file: String,
    /// `org/name`, or nothing.
    pub repo: String,
    /// What was said of it before.
    pub facts: FileFacts,
    /// What its bytes must add up to.
    pub sum: Checksum,
    /// In which pieces, and how patiently.
    pub pace: Pace,
    /// Counts its bytes.
    pub counter: Arc<Counter>,
}

/// A transfer under way.
struct TransferJob {
    of: Transfer,
    partial: Mutex<PartialFile>,
    pieces: Mutex<VecDeque<Range<u64>>>,
    digest: Mutex<DigestThread>,
}

impl Transfer {
    /// Fetches into `target`, which is there whole and checked at the end, or not at all.
    ///
    /// # Errors
    /// When patience ends, the file changed, or its bytes are not those of the checksum.
    pub async fn run(self, target: &Path) -> Result<()> {
        let size = self.facts.size;
        let partial = PartialFile::open(target, size)?;
        self.counter.done.fetch_add(partial.done().total(), Relaxed);
        let digest = DigestThread::follow(partial.path(), &self.sum, size.unwrap_or(0));
        let pieces = size.map_or_else(VecDeque::new, |size| partial.done().missing(size, self.pace.chunk));
        let (partial, pieces, digest) = (Mutex::new(partial), Mutex::new(pieces), Mutex::new(digest));
        let job = Arc::new(TransferJob { of: self, partial, pieces, digest });
        let done = match size {
            Some(_) => in_pieces(&job).await,
            None => Err(HubError::NoRanges(job.of.file.clone())),
        };
        let done = match done {
            Err(HubError::NoRanges(_)) => job.whole().await,
            done => done,
        };
        // All other holders ended with their tasks.
        let job = Arc::into_inner(job).ok_or_else(|| HubError::Connection("a transfer has no end".into()))?;
        job.finish(target, done)
    }

    /// The first `len` bytes.
    ///
    /// # Errors
    /// When they do not come.
    pub async fn beginning(&self, len: u64) -> Result<Vec<u8>> {
        self.pace
            .persist(async || {
                let mut answer = match self.ask(Some(0..len)).await {
                    Err(HubError::NoRanges(_)) => self.ask(None).await?,
                    answer => answer?,
                };
                let mut bytes = vec![];
                while (bytes.len() as u64) < len
                    && let Some(piece) = self.remote.piece(&mut answer).await?
                {
                    bytes.extend_from_slice(piece.as_ref());
                }
                self.counter.fetched.fetch_add(bytes.len() as u64, Relaxed);
                Ok(bytes)
            })
            .await
    }

    /// An answer whose body is the file, or that range of it.
    async fn ask(&self, range: Option<Range<u64>>) -> Result<HttpAnswer> {
        let mut request = self.remote.request(HttpRequest::get(self.address.clone()));
        if let Some(range) = &range {
            let words = format!("bytes={}-{}", range.start, range.end - 1);
            request.headers.extend(HeaderValue::try_from(words).map(|words| (RANGE, words)));
        }
        let asked = HubQuestion { repo: &self.repo, revision: "", file: &self.file };
        let opened = self.remote.open(request, asked).await;
        let (answer, facts) = opened.map_err(|e| match e {
            // It is shorter than it was.
            HubError::Status { status: 416, .. } => HubError::Changed(self.file.clone()),
            e => e,
        })?;
        if facts.etag.is_some() && self.facts.etag.is_some() && facts.etag != self.facts.etag {
            return Err(HubError::Changed(self.file.clone()));
        }
        let wrong = |problem: String| HubError::Answer { url: self.file.clone(), problem };
        if let Some(problem) = not_asked(answer.headers()).filter(|_| !self.file.ends_with(".html")) {
            return Err(wrong(problem.to_owned()));
        }
        match (range, answer.status()) {
            (Some(range), StatusCode::PARTIAL_CONTENT) => self.check_range(&answer, &range).map(|()| answer),
            (Some(range), StatusCode::OK)
                if range.start > 0 || self.facts.size.is_some_and(|s| s > range.end) =>
            {
                Err(HubError::NoRanges(self.file.clone()))
            }
            (_, StatusCode::OK) => Ok(answer),
            (_, status) => Err(wrong(format!("the server answered {status}"))),
        }
    }

    /// Compares the range that comes with the one that was asked for.
    fn check_range(&self, answer: &HttpAnswer, asked: &Range<u64>) -> Result<()> {
        let told = text(answer.headers(), CONTENT_RANGE.as_str()).unwrap_or_default();
        let parts = || {
            let (range, size) = told.strip_prefix("bytes ")?.split_once('/')?;
            let (start, end) = range.split_once('-')?;
            Some((start.parse::<u64>().ok()?, end.parse::<u64>().ok()?, size.parse::<u64>().ok()))
        };
        match parts() {
            Some((_, _, Some(size))) if self.facts.size.is_some_and(|s| s != size) => {
                Err(HubError::Changed(self.file.clone()))
            }
            Some((start, end, _)) if start == asked.start && end < asked.end => Ok(()),
            _ => {
                let problem =
                    format!("bytes {}-{} were asked for, `{told}` came", asked.start, asked.end - 1);
                Err(HubError::Answer { url: self.file.clone(), problem })
            }
        }
    }
}

/// Fetches what is missing, some pieces at once.
async fn in_pieces(job: &Arc<TransferJob>) -> Result<()> {
    let mut tasks = JoinSet::new();
    for _ in 0..job.of.pace.at_once {
        let job = job.clone();
        tasks.spawn(async move {
            while let Some(piece) = job.next() {
                job.fetch(piece).await?;
            }
            Ok(())
        });
    }
    let mut first = Ok(());
    while let Some(ended) = tasks.join_next().await {
        // What ended because it was told to has nothing to say.
        if let (Ok(Err(e)), Ok(())) = (ended, &first) {
            first = Err(e);
            tasks.abort_all();
        }
    }
    first
}

impl TransferJob {
    fn next(&self) -> Option<Range<u64>> {
        lock(&self.pieces).pop_front()
    }

    /// Fetches a piece. Whoever brings bytes has all tries again.
    async fn fetch(&self, mut piece: Range<u64>) -> Result<()> {
        let mut tries = 0;
        while !piece.is_empty() {
            let before = piece.start;
            let done = self.stream(&mut piece).await;
            tries = if piece.start > before { 1 } else { tries + 1 };
            match done {
                Err(why) => self.of.pace.wait(tries, why).await?,
                Ok(()) if piece.is_empty() => {}
                Ok(()) => self.of.pace.wait(tries, cut(&self.of.file)).await?,
            }
        }
        Ok(())
    }

    /// Puts what one answer brings in its place; `piece` is what is missing after it.
    async fn stream(&self, piece: &mut Range<u64>) -> Result<()> {
        let mut answer = self.of.ask(Some(piece.clone())).await?;
        while !piece.is_empty()
            && let Some(bytes) = self.of.remote.piece(&mut answer).await?
        {
            // More than was asked for belongs to another piece.
            let room = usize::try_from(piece.end - piece.start).unwrap_or(usize::MAX);
            let bytes = bytes.as_ref();
            let bytes = &bytes[..bytes.len().min(room)];
            self.put(piece.start, bytes)?;
            piece.start += bytes.len() as u64;
        }
        Ok(())
    }

    /// Fetches all of it by one request, from its beginning at every try: the server knows nothing of parts.
    async fn whole(&self) -> Result<()> {
        self.of
            .pace
            .persist(async || {
                let before = lock(&self.partial).done().total();
                lock(&self.partial).restart()?;
                self.of.counter.done.fetch_sub(before, Relaxed);
                let mut answer = self.of.ask(None).await?;
                let mut at = 0;
                while let Some(bytes) = self.of.remote.piece(&mut answer).await? {
                    let bytes = bytes.as_ref();
                    if self.of.facts.size.is_some_and(|size| at + bytes.len() as u64 > size) {
                        return Err(HubError::Changed(self.of.file.clone()));
                    }
                    self.put(at, bytes)?;
                    at += bytes.len() as u64;
                }
                if self.of.facts.size.is_some_and(|size| at < size) {
                    Err(cut(&self.of.file))
                } else {
                    Ok(())
                }
            })
            .await
    }

    fn put(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let mut partial = lock(&self.partial);
        let before = partial.done().total();
        partial.write(at, bytes)?;
        self.of.counter.done.fetch_add(partial.done().total() - before, Relaxed);
        self.of.counter.fetched.fetch_add(bytes.len() as u64, Relaxed);
        lock(&self.digest).advance(partial.done().prefix());
        Ok(())
    }

    /// What is whole and right gets its name; what is wrong goes, what is missing stays for the next time.
    fn finish(self, target: &Path, done: Result<()>) -> Result<()> {
        let into = |lock: Mutex<PartialFile>| lock.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (partial, digest) = (into(self.partial), self.digest);
        let digest = digest.into_inner().unwrap_or_else(PoisonError::into_inner);
        match done {
            Ok(()) => {}
            Err(e @ (HubError::Changed(_) | HubError::NoRanges(_))) => {
                partial.discard();
                return Err(e);
            }
            Err(e) => return Err(e),
        }
        digest.advance(partial.done().prefix());
        let checked = match self.of.facts.size {
            Some(_) => digest.finish(&self.of.sum, &self.of.file),
            // Its head says the size, which nobody knew.
            None => self.of.sum.check(partial.path(), &self.of.file),
        };
        match checked {
            Ok(()) => partial.finish(target),
            Err(e) => {
                partial.discard();
                Err(e)
            }
        }
    }
}

fn cut(file: &str) -> HubError {
    HubError::Connection(format!("{file} broke off"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
