//! Recordings of what models do: one at a time, and those of single requests kept for a while.

use crate::{
    error::{ApiError, Cause},
    models::LiveModel,
};
use lamina::TraceDetail;
use lamina_see::{TaggedRequest, Trace, of_tagged, read::of_tag};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::Notify};

/// Traces that are kept, and for how long.
const MOST: usize = 32;
const LIFE: Duration = Duration::from_secs(600);
/// How long somebody waits for a trace whose request has not ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where recordings are begun and kept.
#[derive(Default)]
pub struct TraceDesk {
    busy: AtomicBool,
    /// Requests that began while a recording runs.
    asked: Mutex<Vec<TaggedRequest>>,
    kept: Mutex<VecDeque<KeptTrace>>,
    news: Notify,
}

struct KeptTrace {
    id: String,
    tenant: Arc<str>,
    since: Instant,
    /// None while its request runs, or where nothing came of it.
    trace: Option<Arc<Trace>>,
    over: bool,
}

/// A trace that a request is to leave behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceWish {
    /// How much is recorded.
    pub detail: TraceDetail,
    /// Under which id it is kept.
    pub id: String,
    /// Who may see it.
    pub tenant: Arc<str>,
}

/// A recording that runs. Dropping it ends it, and the model records its steps again as before.
pub struct TraceRecording {
    desk: Arc<TraceDesk>,
    live: Arc<LiveModel>,
    /// The request that it is about, by its number, and where its trace is kept.
    of: Option<(u64, TraceWish)>,
    over: bool,
}

impl TraceDesk {
    /// Begins a recording of a model. It waits for the step that runs.
    ///
    /// # Errors
    /// While another one runs.
    pub fn begin(
        self: &Arc<TraceDesk>,
        live: Arc<LiveModel>,
        detail: TraceDetail,
        of: Option<(u64, TraceWish)>,
    ) -> Result<TraceRecording, ApiError> {
        if self.busy.swap(true, Ordering::SeqCst) {
            let text = "another recording runs: there is one at a time";
            return Err(ApiError::new(Cause::Conflict, text));
        }
        held(&self.asked).clear();
        if let Some((_, wish)) = &of {
            self.expect(wish);
        }
        let recording = TraceRecording { desk: self.clone(), live, of, over: false };
        recording.live.model.record(Some(detail));
        Ok(recording)
    }

    /// A request begins with this prompt; true where its tokens are to be noted too.
    pub fn note(&self, number: u64, prompt: &[u32]) -> bool {
        let on = self.busy.load(Ordering::SeqCst);
        if on {
            let begun = TaggedRequest { tag: number, prompt: prompt.to_vec(), answer: vec![] };
            held(&self.asked).push(begun);
        }
        on
    }

    /// A token of a request's first answer.
    pub fn token(&self, number: u64, id: u32) {
        let mut asked = held(&self.asked);
        asked.iter_mut().find(|request| request.tag == number).into_iter().for_each(|r| r.answer.push(id));
    }

    /// The trace of that id, once its request has ended; none where there is none.
    ///
    /// # Errors
    /// While its request runs on.
    pub async fn find(&self, id: &str, tenant: &str, all: bool) -> Result<Option<Arc<Trace>>, ApiError> {
        let end = Instant::now() + PATIENCE;
        loop {
            let news = self.news.notified();
            match self.look(id, tenant, all) {
                None => return Ok(None),
                Some((true, trace)) => return Ok(trace),
                Some((false, _)) => {}
            }
            let left = end.saturating_duration_since(Instant::now());
            if tokio::time::timeout(left, news).await.is_err() {
                let text = "the request of this trace has not ended";
                return Err(ApiError::unavailable(text, Duration::from_secs(1)));
            }
        }
    }

    /// Whether the trace of that id is over, and itself.
    fn look(&self, id: &str, tenant: &str, all: bool) -> Option<(bool, Option<Arc<Trace>>)> {
        let mut kept = held(&self.kept);
        kept.retain(|k| k.since.elapsed() < LIFE);
        let found = kept.iter().find(|k| k.id == id && (all || *k.tenant == *tenant))?;
        Some((found.over, found.trace.clone()))
    }

    fn expect(&self, wish: &TraceWish) {
        let mut kept = held(&self.kept);
        if kept.len() == MOST {
            kept.pop_front();
        }
        let (id, tenant) = (wish.id.clone(), wish.tenant.clone());
        kept.push_back(KeptTrace { id, tenant, since: Instant::now(), trace: None, over: false });
    }

    fn keep(&self, id: &str, trace: Option<Trace>) {
        if let Some(kept) = held(&self.kept).iter_mut().find(|k| k.id == id) {
            (kept.trace, kept.over, kept.since) = (trace.map(Arc::new), true, Instant::now());
        }
        self.news.notify_waiters();
    }
}

impl TraceRecording {
    /// Ends it. It waits for the step that runs, and makes a trace of what was recorded: of its request, where it is about
    /// one.
    pub fn finish(mut self) -> Option<Trace> {
        self.end()
    }

    fn end(&mut self) -> Option<Trace> {
        let log = self.live.model.record(self.live.records.then_some(TraceDetail::Steps));
        self.over = true;
        let asked = std::mem::take(&mut *held(&self.desk.asked));
        self.desk.busy.store(false, Ordering::SeqCst);
        let trace = log.map(|log| of_tagged(&self.live.model, &log, &asked));
        match &self.of {
            None => trace,
            Some((number, wish)) => {
                self.desk.keep(&wish.id, trace.and_then(|trace| of_tag(trace, *number)));
                None
            }
        }
    }
}

impl Drop for TraceRecording {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.over = true;
        let (desk, live, of) = (self.desk.clone(), self.live.clone(), self.of.take());
        let mut rest = TraceRecording { desk, live, of, over: true };
        // On the thread of HTTP nobody waits for a step.
        match Handle::try_current() {
            Ok(handle) => drop(handle.spawn_blocking(move || rest.end())),
            Err(_) => drop(rest.end()),
        }
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
