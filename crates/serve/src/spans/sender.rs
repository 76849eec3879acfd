//! Sends spans to a collector, beside the requests: what it does not take is dropped and counted.

use super::{SpanCollector, request::span, target::SpanTarget};
use crate::{log::LogEntry, metrics::SpanMetrics, options::ServeOptions};
use lamina_see::export::RequestSpan;
use std::{
    env,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

/// Spans of requests that are sent at once, and those that wait at most.
const BATCH: usize = 512;
const MOST: usize = 8 * BATCH;
/// How long a span may wait for others to be sent with.
const GATHER: Duration = Duration::from_secs(1);

/// Where spans go.
pub struct SpanSender {
    queue: Sender<RequestSpan>,
    /// Taken by who sends.
    waiting: Mutex<Option<Receiver<RequestSpan>>>,
    collector: SpanCollector,
    target: SpanTarget,
    metrics: SpanMetrics,
    failing: AtomicBool,
}

impl SpanSender {
    /// A sender to the collector of the options, or of the environment; none where there is none.
    ///
    /// # Errors
    /// When its address is none, or this build cannot send.
    pub fn of(options: &ServeOptions, metrics: SpanMetrics) -> Result<Option<SpanSender>, String> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let (url, protocol) = (&options.otlp_traces_endpoint, &options.otlp_traces_protocol);
        let Some(target) = SpanTarget::of(url.as_deref(), protocol.as_deref(), variable)? else {
            return Ok(None);
        };
        let collector = SpanCollector::new(&target).map_err(|e| format!("otlp_traces_endpoint: {e}"))?;
        let (queue, waiting) = channel(MOST);
        let (waiting, failing) = (Mutex::new(Some(waiting)), AtomicBool::new(false));
        Ok(Some(SpanSender { queue, waiting, collector, target, metrics, failing }))
    }

    /// Sends the span of a request some time soon, or drops it.
    pub fn send(&self, entry: &LogEntry) {
        let Some(span) = span(entry, Instant::now()) else { return };
        if self.queue.try_send(span).is_err() {
            self.metrics.dropped.inc();
        }
    }

    /// Sends what comes until `over`, and then what is left.
    pub async fn run(&self, over: CancellationToken, tell: impl Fn(&str)) {
        let taken = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut waiting) = taken else { return };
        let mut batch = vec![];
        loop {
            tokio::select! {
                _ = waiting.recv_many(&mut batch, BATCH) => {}
                () = over.cancelled() => {}
            }
            if batch.len() < BATCH {
                tokio::select! { () = sleep(GATHER) => {}, () = over.cancelled() => {} }
            }
            while let Some(span) = (batch.len() < BATCH).then(|| waiting.try_recv().ok()).flatten() {
                batch.push(span);
            }
            let last = over.is_cancelled() && batch.len() < BATCH;
            self.post(&mut batch, &tell).await;
            if last {
                return;
            }
        }
    }

    async fn post(&self, batch: &mut Vec<RequestSpan>, tell: &impl Fn(&str)) {
        if batch.is_empty() {
            return;
        }
        let count = batch.len() as u64;
        let message = self.target.protocol.message(batch, &self.target.service, env!("CARGO_PKG_VERSION"));
        batch.clear();
        let sent = self.collector.post(message).await;
        let counter = if sent.is_ok() { &self.metrics.sent } else { &self.metrics.dropped };
        counter.inc_by(count);
        // Told once, and not again until it works.
        let failed = self.failing.swap(sent.is_err(), Ordering::Relaxed);
        if let (Err(problem), false) = (sent, failed) {
            let to = self.collector.shown();
            tell(&format!("lamina: spans cannot be sent to {to}: {problem}; they are dropped"));
        }
    }
}
