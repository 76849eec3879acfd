//! A request's body that tells its connection when it is waited for, and counts its bytes.

use super::pace::Activity;
use crate::log::RequestLog;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A request's body.
pub(super) struct Upload {
    body: Incoming,
    activity: Arc<Activity>,
    log: RequestLog,
}

impl Upload {
    pub fn new(body: Incoming, activity: Arc<Activity>, log: RequestLog) -> Upload {
        Upload { body, activity, log }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.activity.awaits_body(frame.is_pending());
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.log.entry().received += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.activity.awaits_body(false);
    }
}
