//! A response's body that tells the log when it has ended, or when its reader has left.

use super::pace::{Busy, SlowBody};
use crate::{app::App, log::RequestLog};
use axum::body::Body;
use bytes::Bytes;
use http::Version;
use http_body::{Frame, SizeHint};
use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

/// Bytes that are handed to a stream of HTTP/2 at once: a reader that takes so many is not slow.
const PIECE: usize = 1 << 10;

/// A request until its last byte is written, or nobody wants it any more.
pub(super) struct RequestEnding {
    app: App,
    log: RequestLog,
    whole: bool,
    slow: bool,
    busy: Busy,
}

/// The body of a response.
pub(super) struct LoggedBody(Arc<OpenBody>);

/// A body that its connection can take away.
struct OpenBody {
    state: Mutex<BodyState>,
    /// Bytes of a frame at most.
    piece: usize,
}

struct BodyState {
    open: Option<(Body, RequestEnding)>,
    /// What is left of a frame.
    rest: Bytes,
    /// Since when a frame is with the connection, which has not asked for more.
    handed: Option<Instant>,
}

impl LoggedBody {
    /// A request whose head was read.
    pub fn begin(app: App, log: RequestLog, busy: Busy) -> RequestEnding {
        app.requests.fetch_add(1, Ordering::SeqCst);
        app.open.add(&log);
        RequestEnding { app, log, whole: false, slow: false, busy }
    }
}

impl RequestEnding {
    /// Its response's body. A stream of HTTP/2 has a window of its own, which its reader can leave closed while the
    /// connection goes on: it has a clock of its own.
    pub fn with(mut self, body: Body, version: Version) -> LoggedBody {
        self.whole = http_body::Body::is_end_stream(&body);
        let activity = self.busy.activity().clone();
        let many = version == Version::HTTP_2;
        let state = BodyState { open: Some((body, self)), rest: Bytes::new(), handed: None };
        let piece = if many { PIECE } else { usize::MAX };
        let body = Arc::new(OpenBody { state: Mutex::new(state), piece });
        if many {
            activity.watch(body.clone());
        }
        LoggedBody(body)
    }
}

impl Drop for RequestEnding {
    fn drop(&mut self) {
        let mut entry = self.log.entry();
        if !self.whole || self.slow {
            entry.finish = Some(if self.slow || self.busy.was_slow() { "slow" } else { "disconnect" });
        }
        if entry.queued {
            self.app.end_rate.ended();
        }
        self.app.metrics.finish(&entry);
        self.app.recent.add(&entry);
        self.app.open.remove(entry.number);
        self.app.traces.wire(&entry);
        self.app.spans.iter().for_each(|spans| spans.send(&entry));
        let (slow, format) = (self.app.options.slow, self.app.options.log_format);
        if slow.is_some_and(|most| entry.first_token.is_some_and(|time| time > most.0)) {
            self.app.log.line(&entry.slow_line(format));
        }
        if !self.app.options.quiet {
            self.app.log.line(&entry.line(format));
        }
        drop(entry);
        self.app.requests.fetch_sub(1, Ordering::SeqCst);
    }
}

impl OpenBody {
    fn state(&self) -> MutexGuard<'_, BodyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlowBody for OpenBody {
    fn is_open(&self) -> bool {
        self.state().open.is_some()
    }

    fn cut_after(&self, limit: Duration) -> bool {
        let mut state = self.state();
        let slow = state.handed.is_some_and(|since| since.elapsed() > limit);
        let Some((body, mut ending)) = state.open.take_if(|_| slow) else { return false };
        state.rest = Bytes::new();
        drop(state);
        ending.slow = true;
        // Cancels what it is made of.
        drop(body);
        true
    }
}

impl BodyState {
    /// The connection has room again: until now its reader had not.
    fn taken(&mut self) {
        let Some(since) = self.handed.take() else { return };
        if let Some((_, ending)) = &self.open {
            ending.log.entry().reader += since.elapsed();
        }
    }

    /// A frame goes to the connection.
    fn hand(&mut self, frame: &Frame<Bytes>) {
        let now = Instant::now();
        self.handed = Some(now);
        let (Some((_, ending)), Some(data)) = (&self.open, frame.data_ref()) else { return };
        let mut entry = ending.log.entry();
        entry.sent += data.len() as u64;
        entry.first_sent = entry.first_sent.or(Some(now));
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some((body, ending)) = &mut self.open else {
            return Poll::Ready(Some(Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut)))));
        };
        let frame = ready!(http_body::Body::poll_frame(Pin::new(&mut *body), context));
        match &frame {
            None => ending.whole = true,
            Some(Ok(_)) if http_body::Body::is_end_stream(body) => ending.whole = true,
            _ => {}
        }
        Poll::Ready(frame)
    }

    /// The first `most` bytes of a frame; the others wait.
    fn piece(&mut self, frame: Frame<Bytes>, most: usize) -> Frame<Bytes> {
        match frame.into_data() {
            Ok(mut data) => {
                self.rest = if data.len() > most { data.split_off(most) } else { Bytes::new() };
                Frame::data(data)
            }
            Err(other) => other,
        }
    }
}

impl http_body::Body for LoggedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut state = self.0.state();
        state.taken();
        let frame = match state.rest.is_empty() {
            true => ready!(state.poll_frame(context)),
            false => Some(Ok(Frame::data(std::mem::take(&mut state.rest)))),
        };
        let Some(Ok(frame)) = frame else { return Poll::Ready(frame) };
        let frame = state.piece(frame, self.0.piece);
        state.hand(&frame);
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        let state = self.0.state();
        let ended = |(body, _): &(Body, RequestEnding)| http_body::Body::is_end_stream(body);
        state.rest.is_empty() && state.open.as_ref().is_some_and(ended)
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.0.state();
        match (&state.open, state.rest.is_empty()) {
            (Some((body, _)), true) => http_body::Body::size_hint(body),
            _ => SizeHint::default(),
        }
    }
}

impl Drop for LoggedBody {
    fn drop(&mut self) {
        // Its connection may still hold it for a while.
        let open = self.0.state().open.take();
        drop(open);
    }
}
