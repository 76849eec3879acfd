//! A connection that may stand still only for so long.
//!
//! Reading: a request's head may take 10 s, and a connection without requests may rest for 75 s. Writing: a reader that
//! takes nothing for the time of the options is cut off, which cancels its requests; of a connection with many streams
//! that holds for each. One that reads a byte a second is slow, but reads.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// How long a client may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For a request's head.
    pub head: Duration,
    /// Between requests.
    pub rest: Duration,
    /// Until it takes the next bytes.
    pub slow: Duration,
}

impl Patience {
    /// That of a server which gives its readers so much time.
    pub fn of_readers(slow: Duration) -> Patience {
        Patience { head: Duration::from_secs(10), rest: Duration::from_secs(75), slow }
    }
}

/// How a connection of HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A response's body whose reader may leave it standing.
pub(super) trait SlowBody: Send + Sync {
    /// It has not ended, and was not cut.
    fn is_open(&self) -> bool;
    /// Cuts it if its reader has taken nothing for longer than `limit`; true when it did.
    fn cut_after(&self, limit: Duration) -> bool;
}

/// What a connection does, and since when it waits for its client.
pub(super) struct Activity(Mutex<ActivityState>);

struct ActivityState {
    /// Requests that have not ended.
    requests: usize,
    /// When the last of them ended, or the connection began.
    rests_since: Instant,
    /// Bytes of a request's body are waited for.
    awaits_body: Option<Instant>,
    /// The client takes no bytes.
    stuck: Option<Instant>,
    /// A reader was cut off.
    slow: bool,
    /// Bodies with clocks of their own.
    bodies: Vec<Arc<dyn SlowBody>>,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standstill {
    /// The rest of a request, or that its client reads.
    Client,
    /// A request.
    Idle,
}

/// A request that has not ended.
pub(super) struct Busy(Arc<Activity>);

impl Default for Activity {
    fn default() -> Activity {
        Activity(Mutex::new(ActivityState {
            requests: 0,
            rests_since: Instant::now(),
            awaits_body: None,
            stuck: None,
            slow: false,
            bodies: vec![],
        }))
    }
}

impl Activity {
    fn state(&self) -> MutexGuard<'_, ActivityState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more request.
    pub fn enter(self: &Arc<Activity>) -> Busy {
        self.state().requests += 1;
        Busy(self.clone())
    }

    fn rests(&self) -> bool {
        self.state().requests == 0
    }

    /// Bytes of a request's body are waited for, or have come.
    pub fn awaits_body(&self, waits: bool) {
        let awaits = &mut self.state().awaits_body;
        *awaits = if waits { awaits.or_else(|| Some(Instant::now())) } else { None };
    }

    fn is_stuck(&self, stuck: bool) {
        let since = &mut self.state().stuck;
        *since = if stuck { since.or_else(|| Some(Instant::now())) } else { None };
    }

    /// A reader was cut off.
    fn was_cut(&self) {
        self.state().slow = true;
    }

    /// Watches a body whose reader has a window of its own.
    pub fn watch(&self, body: Arc<dyn SlowBody>) {
        self.state().bodies.push(body);
    }

    /// Cuts bodies whose readers have taken nothing for `limit`; true when for as long nothing is left on the connection but
    /// those: what others were sent last may still wait for its reader.
    pub fn cut_slow(&self, limit: Duration) -> bool {
        let bodies = {
            let state = &mut *self.state();
            state.bodies.retain(|body| body.is_open());
            state.bodies.clone()
        };
        let any = bodies.iter().filter(|body| body.cut_after(limit)).count() > 0;
        let mut state = self.state();
        state.slow |= any;
        state.slow && state.requests == 0 && state.rests_since.elapsed() > limit
    }

    /// What it waits for and since when; none while it is the server's turn.
    pub fn standstill(&self) -> Option<(Standstill, Instant)> {
        let state = self.state();
        match state.requests {
            0 => Some((Standstill::Idle, state.rests_since)),
            _ => state.awaits_body.or(state.stuck).map(|since| (Standstill::Client, since)),
        }
    }
}

impl Busy {
    /// True when its reader was cut off, having taken nothing for too long.
    pub fn was_slow(&self) -> bool {
        self.0.state().slow
    }

    /// What its connection does.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.0
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.requests -= 1;
        state.rests_since = Instant::now();
    }
}

/// A connection with clocks.
pub(super) struct Paced<T> {
    inner: T,
    activity: Arc<Activity>,
    patience: Patience,
    write_clock: WaitClock,
    read_clock: WaitClock,
    spoken: Spoken,
}

/// What is known of a connection by the bytes that have come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spoken {
    /// So many bytes, with which HTTP/2 begins too.
    Begun(usize),
    /// HTTP/1: a request's head has begun.
    Head,
    /// HTTP/1 between requests.
    Between,
    /// HTTP/2, where heads come whole or not at all, and other frames between requests.
    Http2,
}

impl Spoken {
    /// After these bytes of a connection without requests.
    fn then(self, bytes: &[u8]) -> Spoken {
        match self {
            Spoken::Begun(seen) => {
                let expected = &PREFACE[seen..PREFACE.len().min(seen + bytes.len())];
                match bytes.starts_with(expected) {
                    true if seen + expected.len() == PREFACE.len() => Spoken::Http2,
                    true => Spoken::Begun(seen + expected.len()),
                    false => Spoken::Head,
                }
            }
            Spoken::Head | Spoken::Between => Spoken::Head,
            Spoken::Http2 => Spoken::Http2,
        }
    }

    /// True when its client has begun what it has to end.
    fn is_head(self) -> bool {
        matches!(self, Spoken::Begun(1..) | Spoken::Head)
    }
}

/// Runs while something is waited for.
#[derive(Default)]
struct WaitClock(Option<Pin<Box<Sleep>>>);

impl WaitClock {
    /// True when `limit` is over since the waiting began.
    fn is_over(&mut self, limit: Duration, context: &mut Context<'_>) -> bool {
        self.0.get_or_insert_with(|| Box::pin(sleep(limit))).as_mut().poll(context).is_ready()
    }

    fn stop(&mut self) {
        self.0 = None;
    }
}

impl<T> Paced<T> {
    pub fn new(inner: T, activity: Arc<Activity>, patience: Patience) -> Paced<T> {
        let (write_clock, read_clock) = (WaitClock::default(), WaitClock::default());
        Paced { inner, activity, patience, write_clock, read_clock, spoken: Spoken::Begun(0) }
    }

    /// Cuts off a reader that takes nothing.
    fn written<R>(&mut self, done: Poll<io::Result<R>>, context: &mut Context<'_>) -> Poll<io::Result<R>> {
        self.activity.is_stuck(done.is_pending());
        match done {
            Poll::Ready(_) => self.write_clock.stop(),
            Poll::Pending if self.write_clock.is_over(self.patience.slow, context) => {
                self.activity.was_cut();
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            Poll::Pending => {}
        }
        done
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Paced<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let done = Pin::new(&mut this.inner).poll_read(context, buffer);
        if !this.activity.rests() {
            this.read_clock.stop();
            this.spoken = if this.spoken == Spoken::Http2 { Spoken::Http2 } else { Spoken::Between };
            return done;
        }
        match done {
            Poll::Ready(_) => {
                let spoken = this.spoken.then(&buffer.filled()[before..]);
                // A head that comes in pieces has one clock for all of them.
                if this.spoken.is_head() != spoken.is_head() {
                    this.read_clock.stop();
                }
                this.spoken = spoken;
                done
            }
            Poll::Pending => {
                let limit = if this.spoken.is_head() { this.patience.head } else { this.patience.rest };
                match this.read_clock.is_over(limit, context) {
                    true => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                    false => Poll::Pending,
                }
            }
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Paced<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.written(done, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.written(done, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.inner).poll_flush(context);
        self.written(done, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.inner).poll_shutdown(context);
        self.written(done, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn heads_are_waited_for_and_frames_are_no_heads() {
        let begun = Spoken::Begun(0);
        assert!(!begun.is_head() && begun.then(b"P").is_head());
        assert!(begun.then(b"P").then(b"OST / HT") == Spoken::Head);
        assert!(begun.then(b"PRI * HTTP/2.0\r\n").then(b"\r\nSM\r\n\r\n\0\0") == Spoken::Http2);
        assert!(!Spoken::Http2.then(b"\0\0\x08\x06").is_head() && Spoken::Between.then(b"G").is_head());
    }

    /// How long a connection lasts that begins so and then gets a few bytes now and then.
    async fn lasts(beginning: &[u8]) -> Duration {
        let (mut client, server) = tokio::io::duplex(1 << 10);
        let ms = Duration::from_millis;
        let patience = Patience { head: ms(50), rest: ms(400), slow: ms(400) };
        let mut paced = Paced::new(server, Arc::default(), patience);
        let begun = Instant::now();
        let writes = async {
            client.write_all(beginning).await.expect("a server");
            loop {
                sleep(ms(30)).await;
                client.write_all(&[b'a'; 17]).await.expect("a server");
            }
        };
        let reads = async {
            while paced.read_u8().await.is_ok() {}
            begun.elapsed()
        };
        tokio::select! { time = reads => time, () = writes => Duration::ZERO }
    }

    #[tokio::test]
    async fn a_connection_of_http2_rests_as_long_as_others() {
        let (head, frames) = (lasts(b"POST / HT").await, lasts(PREFACE).await);
        assert!(head < Duration::from_millis(300), "{head:?}");
        assert!(frames > Duration::from_millis(350) && frames < Duration::from_secs(5), "{frames:?}");
    }
}
