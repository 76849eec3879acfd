//! The thread that encodes pictures or sounds, one step of them after the other, beside the engine.

use super::{
    eyes::STEP_ROWS,
    job::{EncodeJob, MadeRows},
    row_cache::RowCache,
    sense::Sense,
};
use crate::error::{Error, Result};
use lamina_arch::vision::VisionSource;
use lamina_engine::Name;
use lamina_plan::Backend;
use std::{
    any::Any,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Address space of the thread, with what it takes beside its stack.
const THREAD: usize = 4 << 20;

/// What encoded pictures, and what is kept of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncoderCounts {
    /// Pictures that were encoded.
    pub encoded: u64,
    /// Time that it took, with what engines computed between its slices.
    pub encode_time: Duration,
    /// Bytes of the rows that are kept.
    pub cache_bytes: u64,
    /// How often the rows of a picture were found among those.
    pub cache_hits: u64,
    /// How often they were looked for.
    pub cache_queries: u64,
}

/// Rows by their names.
type EncodedNames<S> = Vec<(Name, Arc<<S as Sense>::Rows>)>;

/// A queue of what a sense takes and the thread that works it off, which begins with the first one.
pub(super) struct EncoderWorker<S: Sense> {
    spec: S::Spec,
    state: Mutex<WorkerState<S>>,
    news: Condvar,
}

struct WorkerState<S: Sense> {
    /// None once the thread has it.
    opener: Option<Opener>,
    thread: Option<JoinHandle<()>>,
    waiting: VecDeque<Weak<EncodeJob<S>>>,
    cache: RowCache<S>,
    encoded: u64,
    encode_time: Duration,
    closed: bool,
}

/// What the encoder is made of.
struct Opener {
    source: VisionSource,
    backend: Box<dyn Backend>,
}

impl<S: Sense> EncoderWorker<S> {
    /// For the encoder of `source` on `backend`, keeping rows of up to `cache` bytes.
    pub fn new(
        spec: S::Spec,
        source: VisionSource,
        backend: Box<dyn Backend>,
        cache: u64,
    ) -> EncoderWorker<S> {
        let state = WorkerState {
            opener: Some(Opener { source, backend }),
            thread: None,
            waiting: VecDeque::new(),
            cache: RowCache::new(cache),
            encoded: 0,
            encode_time: Duration::ZERO,
            closed: false,
        };
        EncoderWorker { spec, state: Mutex::new(state), news: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, WorkerState<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts so far.
    pub fn counts(&self) -> EncoderCounts {
        let state = self.lock();
        EncoderCounts {
            encoded: state.encoded,
            encode_time: state.encode_time,
            cache_bytes: state.cache.bytes(),
            cache_hits: state.cache.hits,
            cache_queries: state.cache.queries,
        }
    }

    /// Takes a job in. Jobs that nobody holds when their turn comes are passed over.
    pub fn push(self: &Arc<Self>, job: Weak<EncodeJob<S>>) {
        let mut state = self.lock();
        let begun = if state.closed { Err(closed()) } else { self.begin(&mut state) };
        match begun {
            Ok(()) => state.waiting.push_back(job),
            Err(e) => {
                drop(state);
                job.upgrade().into_iter().for_each(|job| job.end(Err(e.clone())));
            }
        }
        self.news.notify_one();
    }

    /// Starts the thread where it does not run.
    fn begin(self: &Arc<Self>, state: &mut WorkerState<S>) -> Result<()> {
        if state.thread.is_some() {
            return Ok(());
        }
        let none = |why: &str| Error::OutOfMemory(format!("no thread for the encoder of {}: {why}", S::NAME));
        // A thread that gets its stack and nothing beside it ends the process.
        if !lamina_reserve::affordable(THREAD) {
            return Err(none("there is no memory for it"));
        }
        let Some(opener) = state.opener.take() else { return Err(none("it has ended")) };
        let worker = self.clone();
        let thread = thread::Builder::new().name("lamina-encoder".into());
        state.thread = Some(thread.spawn(move || worker.run(&opener)).map_err(|e| none(&e.to_string()))?);
        Ok(())
    }

    /// Ends the thread; who still waits for rows is told.
    pub fn close(&self) {
        let thread = {
            let mut state = self.lock();
            state.closed = true;
            state.thread.take()
        };
        self.news.notify_all();
        // Panics are caught inside the thread.
        let _ = thread.map(JoinHandle::join);
        let left = std::mem::take(&mut self.lock().waiting);
        left.iter().filter_map(Weak::upgrade).for_each(|job| job.end(Err(closed())));
    }

    fn run(&self, opener: &Opener) {
        let mut sense = None;
        while let Some(jobs) = self.next() {
            let begin = Instant::now();
            let encoded = catch_unwind(AssertUnwindSafe(|| self.encode(&mut sense, opener, &jobs)));
            let encoded = encoded.unwrap_or_else(|panic| {
                // What it has left half done is not used again.
                sense = None;
                Err(Error::Runtime(format!("the encoder of {} panicked: {}", S::NAME, panic_text(&*panic))))
            });
            let (mut state, time) = (self.lock(), begin.elapsed());
            state.encode_time += time;
            let rows = encoded.inspect(|all| {
                state.encoded += all.len() as u64;
                all.iter().for_each(|(id, rows)| state.cache.put(*id, rows.clone()));
            });
            drop(state);
            tell(&jobs, rows, time);
        }
    }

    /// The next jobs, as many as a step has rows for, once there are any; none at the end. Those whose rows are kept are
    /// told at once.
    fn next(&self) -> Option<Vec<Arc<EncodeJob<S>>>> {
        loop {
            let state = self.lock();
            let idle = |s: &mut WorkerState<S>| s.waiting.is_empty() && !s.closed;
            let mut state = self.news.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
            if state.closed {
                return None;
            }
            let (mut jobs, mut kept, mut patches) = (vec![], vec![], 0);
            while let Some(job) = state.waiting.pop_front() {
                let Some(job) = job.upgrade() else { continue };
                if let Some(rows) = state.cache.get(job.id()) {
                    kept.push((job, rows));
                    continue;
                }
                patches += S::patches(&self.spec, job.input());
                if patches > STEP_ROWS && !jobs.is_empty() {
                    state.waiting.push_front(Arc::downgrade(&job));
                    break;
                }
                jobs.push(job);
            }
            drop(state);
            kept.into_iter().for_each(|(job, rows)| job.end(Ok(MadeRows { rows, time: None })));
            if !jobs.is_empty() {
                return Some(jobs);
            }
        }
    }

    /// The rows of all different names among `jobs`.
    fn encode(
        &self,
        sense: &mut Option<S>,
        opener: &Opener,
        jobs: &[Arc<EncodeJob<S>>],
    ) -> Result<EncodedNames<S>> {
        let sense = match sense {
            Some(sense) => sense,
            none => none.insert(S::of(&opener.source, self.spec.clone(), &*opener.backend)?),
        };
        let (mut ids, mut inputs): (Vec<Name>, Vec<&S::Input>) = (vec![], vec![]);
        for job in jobs.iter().filter(|job| job.is_wanted()) {
            if !ids.contains(job.id()) {
                ids.push(*job.id());
                inputs.push(job.input());
            }
        }
        let wanted = || !self.lock().closed && jobs.iter().any(|job| job.is_wanted());
        let rows = sense.rows_of(&inputs, &wanted)?;
        Ok(ids.into_iter().zip(rows.into_iter().map(Arc::new)).collect())
    }
}

/// Tells those who wait what came of it. What was made for one was kept for the others.
fn tell<S: Sense>(jobs: &[Arc<EncodeJob<S>>], made: Result<EncodedNames<S>>, time: Duration) {
    let each = time / made.as_ref().map_or(1, |all| all.len().max(1) as u32);
    let mut told: Vec<&Name> = vec![];
    for job in jobs {
        let mine = |all: &EncodedNames<S>| {
            let found = all.iter().find(|(id, _)| id == job.id()).map(|(_, rows)| rows.clone());
            let time = (!told.contains(&job.id())).then_some(each);
            let rows = found.ok_or_else(|| Error::Runtime("the encoder gave no rows".into()))?;
            Ok(MadeRows { rows, time })
        };
        job.end(made.as_ref().map_err(Error::clone).and_then(mine));
        told.push(job.id());
    }
}

fn closed() -> Error {
    Error::Runtime("the model was closed".into())
}

/// What a panic said.
fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".into())
}
