//! What all requests of a server share.

use crate::{
    body::BodyBudget,
    debug::{RecentRequests, TraceDesk},
    end_rate::EndRate,
    kept::KeptAnswers,
    live::{LatencyWindow, LiveFeed, OpenRequests},
    log::LogWriter,
    media::MediaPool,
    metrics::Metrics,
    models::Registry,
    options::ServeOptions,
    spans::SpanSender,
};
use lamina::UrlReader;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// What all requests of a server share. Clones are the same.
#[derive(Clone)]
pub struct App(Arc<AppState>);

/// See [`App`].
pub struct AppState {
    /// What the server was told at its start.
    pub options: ServeOptions,
    /// Its models.
    pub models: Registry,
    /// Its numbers.
    pub metrics: Metrics,
    /// What it tells those who run it.
    pub log: LogWriter,
    /// What large bodies may hold together.
    pub bodies: BodyBudget,
    /// Decodes pictures and sounds.
    pub media: MediaPool,
    /// Reads pictures and sounds at addresses.
    pub urls: UrlReader,
    /// How fast requests end.
    pub end_rate: EndRate,
    /// Answers that can be asked for again.
    pub kept: KeptAnswers,
    /// The last requests, with where their time went.
    pub recent: RecentRequests,
    /// Recordings of its models.
    pub traces: Arc<TraceDesk>,
    /// Where spans of requests go, where a collector was named.
    pub spans: Option<SpanSender>,
    /// Requests that run.
    pub open: OpenRequests,
    /// Times to the first token, and between tokens, of the last minute.
    pub first_tokens: LatencyWindow,
    /// See `first_tokens`.
    pub gaps: LatencyWindow,
    /// What it does, once a second.
    pub feed: LiveFeed,
    /// When it began.
    pub began: Instant,
    draining: AtomicBool,
    /// Ends what still runs when the time to drain is over.
    pub end: CancellationToken,
    /// Requests that have not ended.
    pub requests: AtomicUsize,
    /// Connections that are open.
    pub connections: AtomicUsize,
}

impl App {
    /// A server that has not begun.
    ///
    /// # Errors
    /// When the system gives no thread for the log or for decoding.
    pub fn new(options: ServeOptions, models: Registry) -> std::io::Result<App> {
        let urls = options
            .url_reader
            .clone()
            .unwrap_or_else(|| UrlReader::new(options.allow_media_url.clone(), options.allow_media_http));
        let metrics = Metrics::new(&options.metrics_prefix, options.has_gateway());
        Ok(App(Arc::new(AppState {
            log: LogWriter::to_stderr(metrics.log_dropped.clone())?,
            metrics,
            kept: KeptAnswers::default(),
            recent: RecentRequests::default(),
            traces: Arc::default(),
            spans: None,
            open: OpenRequests::default(),
            first_tokens: LatencyWindow::default(),
            gaps: LatencyWindow::default(),
            feed: LiveFeed::default(),
            began: Instant::now(),
            bodies: BodyBudget::new(options.max_body_memory),
            media: MediaPool::start()?,
            urls,
            end_rate: EndRate::default(),
            options,
            models,
            draining: AtomicBool::new(false),
            end: CancellationToken::new(),
            requests: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
        })))
    }

    /// The same, which sends spans of its requests to the collector of its options or of the environment.
    ///
    /// # Errors
    /// When its address is none.
    pub fn sending(mut self) -> Result<App, String> {
        if let Some(state) = Arc::get_mut(&mut self.0) {
            state.spans = SpanSender::of(&state.options, state.metrics.spans.clone())?;
        }
        Ok(self)
    }

    /// New requests are refused from now on, and who watches is let go.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
        self.feed.end();
    }

    /// True when the server is about to end.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }
}

impl std::ops::Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}
