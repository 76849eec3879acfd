//! Recordings of what models do: one at a time, and those of single requests kept for a while.

use super::wire::WireNote;
use crate::{
    error::{ApiError, Cause},
    log::LogEntry,
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
    /// Requests that ended meanwhile.
    ended: Mutex<Vec<WireNote>>,
    kept: Mutex<VecDeque<KeptTrace>>,
    news: Notify,
}

struct KeptTrace {
    id: String,
    /// The request's number.
    number: u64,
    tenant: Arc<str>,
    since: Instant,
    state: TraceState,
    /// What its connection took and gave, once it has ended.
    wire: Option<WireNote>,
}

/// What has become of a trace.
enum TraceState {
    /// Its request runs.
    Open,
    /// It was made from a recording that began then.
    Made(Box<Trace>, Instant),
    /// It has all that is known.
    Whole(Arc<Trace>),
    /// Nothing came of it.
    Lost,
}

impl KeptTrace {
    /// Adds what the connection took and gave, once both are known.
    fn complete(&mut self) {
        let Some(wire) = self.wire else { return };
        self.state = match std::mem::replace(&mut self.state, TraceState::Lost) {
            TraceState::Made(mut trace, began) => {
                wire.write(&mut trace, began);
                TraceState::Whole(Arc::new(*trace))
            }
            other => other,
        };
    }
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
        held(&self.ended).clear();
        if let Some((number, wish)) = &of {
            self.expect(*number, wish);
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

    /// A request has ended, and its last byte is written or nobody wants it any more.
    pub fn wire(&self, entry: &LogEntry) {
        let wire = WireNote::of(entry, Instant::now());
        if self.busy.load(Ordering::SeqCst) {
            held(&self.ended).push(wire);
        }
        if let Some(kept) = held(&self.kept).iter_mut().find(|k| k.number == entry.number) {
            kept.wire = Some(wire);
            kept.complete();
            self.news.notify_waiters();
        }
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
        Some(match &found.state {
            TraceState::Open | TraceState::Made(..) => (false, None),
            TraceState::Whole(trace) => (true, Some(trace.clone())),
            TraceState::Lost => (true, None),
        })
    }

    fn expect(&self, number: u64, wish: &TraceWish) {
        let mut kept = held(&self.kept);
        if kept.len() == MOST {
            kept.pop_front();
        }
        let (id, tenant) = (wish.id.clone(), wish.tenant.clone());
        let (since, state) = (Instant::now(), TraceState::Open);
        kept.push_back(KeptTrace { id, number, tenant, since, state, wire: None });
    }

    fn keep(&self, id: &str, made: Option<(Trace, Instant)>) {
        if let Some(kept) = held(&self.kept).iter_mut().find(|k| k.id == id) {
            let made = made.map(|(trace, began)| TraceState::Made(Box::new(trace), began));
            (kept.state, kept.since) = (made.unwrap_or(TraceState::Lost), Instant::now());
            kept.complete();
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
        let ended = std::mem::take(&mut *held(&self.desk.ended));
        self.desk.busy.store(false, Ordering::SeqCst);
        let made = log.map(|log| (of_tagged(&self.live.model, &log, &asked), log.began));
        match &self.of {
            None => made.map(|(mut trace, began)| {
                ended.iter().for_each(|wire| wire.write(&mut trace, began));
                trace
            }),
            Some((number, wish)) => {
                let own = made.and_then(|(trace, began)| Some((of_tag(trace, *number)?, began)));
                self.desk.keep(&wish.id, own);
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
