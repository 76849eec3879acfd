//! A response's body that tells the log when it has ended, or when its reader has left.

use super::pace::Busy;
use crate::{app::App, log::RequestLog};
use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::{
    io::Write,
    pin::Pin,
    sync::atomic::Ordering,
    task::{Context, Poll},
};

/// A request until its last byte is written, or nobody wants it any more.
pub(super) struct RequestEnding {
    app: App,
    log: RequestLog,
    whole: bool,
    busy: Busy,
}

/// The body of a response.
pub(super) struct LoggedBody {
    body: Body,
    ending: RequestEnding,
}

impl LoggedBody {
    /// A request whose head was read.
    pub fn begin(app: App, log: RequestLog, busy: Busy) -> RequestEnding {
        app.requests.fetch_add(1, Ordering::SeqCst);
        RequestEnding { app, log, whole: false, busy }
    }
}

impl RequestEnding {
    /// Its response's body.
    pub fn with(mut self, body: Body) -> LoggedBody {
        self.whole = http_body::Body::is_end_stream(&body);
        LoggedBody { body, ending: self }
    }
}

impl Drop for RequestEnding {
    fn drop(&mut self) {
        let mut entry = self.log.entry();
        if !self.whole {
            entry.finish = Some(if self.busy.was_slow() { "slow" } else { "disconnect" });
        }
        if entry.queued {
            self.app.end_rate.ended();
        }
        self.app.metrics.finish(&entry);
        if !self.app.options.quiet {
            let line = entry.line(self.app.options.log_format);
            // A full disk behind stderr must not stop answers.
            _ = writeln!(std::io::stderr(), "{line}");
        }
        drop(entry);
        self.app.requests.fetch_sub(1, Ordering::SeqCst);
    }
}

impl http_body::Body for LoggedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match &frame {
            Poll::Ready(None) => self.ending.whole = true,
            Poll::Ready(Some(Ok(_))) if http_body::Body::is_end_stream(&self.body) => {
                self.ending.whole = true
            }
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        http_body::Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        http_body::Body::size_hint(&self.body)
    }
}
