//! Samples as server-sent events: who is slow is shown the newest one, and nothing waits for him.

use bytes::Bytes;
use http_body::Frame;
use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::sync::watch;

/// What a look at the feed brings: the newest sample, or none when the server ends.
type Look = Pin<Box<dyn Future<Output = (Option<Bytes>, watch::Receiver<Bytes>)> + Send>>;

/// A stream of samples.
pub struct LiveStream {
    /// What is known from before.
    first: Option<Bytes>,
    look: Look,
}

impl LiveStream {
    /// Begins with `first`; each sample of `feed` follows while it is the newest.
    pub fn new(first: Bytes, feed: watch::Receiver<Bytes>) -> LiveStream {
        LiveStream { first: Some(first), look: look(feed) }
    }
}

fn look(mut feed: watch::Receiver<Bytes>) -> Look {
    Box::pin(async move {
        let news = feed.changed().await.is_ok();
        let sample = news.then(|| feed.borrow_and_update().clone());
        (sample, feed)
    })
}

impl http_body::Body for LiveStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let (sample, feed) = ready!(self.look.as_mut().poll(context));
        self.look = look(feed);
        Poll::Ready(sample.map(|sample| Ok(Frame::data(sample))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn a_slow_viewer_sees_the_newest_sample_and_the_end() {
        let feed = watch::Sender::new(Bytes::new());
        let mut stream = LiveStream::new(Bytes::from_static(b"before"), feed.subscribe());
        let mut next = async || stream.frame().await.map(|f| f.expect("a frame").into_data().expect("data"));
        assert_eq!(next().await.as_deref(), Some(&b"before"[..]));
        (0..1000).for_each(|i| drop(feed.send_replace(Bytes::from(i.to_string()))));
        assert_eq!(next().await.as_deref(), Some(&b"999"[..]), "what it did not read in time is gone");
        drop(feed);
        assert_eq!(next().await, None);
    }

    #[tokio::test]
    async fn all_viewers_are_sent_the_same_bytes() {
        let feed = watch::Sender::new(Bytes::new());
        let mut streams: Vec<LiveStream> =
            (0..100).map(|_| LiveStream::new(Bytes::new(), feed.subscribe())).collect();
        for stream in &mut streams {
            stream.frame().await.expect("what was before").expect("a frame");
        }
        let sample = Bytes::from(b"data: {}\n\n".to_vec());
        feed.send_replace(sample.clone());
        for stream in &mut streams {
            let sent = stream.frame().await.expect("a sample").expect("a frame").into_data().expect("data");
            // One buffer, not one that is written for each viewer.
            assert_eq!((sent.as_ptr(), sent.len()), (sample.as_ptr(), sample.len()));
        }
    }
}
