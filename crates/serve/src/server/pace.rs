//! A connection that may stand still only for so long.
//!
//! Reading: a request's head may take 10 s, and a connection without requests may rest for 75 s. Writing: a reader that
//! takes nothing for the time of the options is cut off, which cancels its requests. One that reads a byte a second is
//! slow, but reads.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// How long a request's head may take.
const HEAD: Duration = Duration::from_secs(10);
/// How long a connection without requests may rest.
const REST: Duration = Duration::from_secs(75);

/// Requests of a connection that have not ended.
#[derive(Default)]
pub(super) struct Activity {
    requests: AtomicUsize,
    /// Its reader was cut off.
    slow: AtomicBool,
}

/// A request that has not ended.
pub(super) struct Busy(Arc<Activity>);

impl Activity {
    /// One more request.
    pub fn enter(self: &Arc<Activity>) -> Busy {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }

    fn rests(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }
}

impl Busy {
    /// True when its reader was cut off, having taken nothing for too long.
    pub fn was_slow(&self) -> bool {
        self.0.slow.load(Ordering::Relaxed)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection with clocks.
pub(super) struct Paced<T> {
    inner: T,
    activity: Arc<Activity>,
    slow: Duration,
    write_clock: WaitClock,
    read_clock: WaitClock,
    /// A request's head has begun.
    head: bool,
}

/// Runs while something is waited for.
#[derive(Default)]
struct WaitClock(Option<Pin<Box<Sleep>>>);

impl WaitClock {
    /// True when `limit` is over since the waiting began.
    fn is_over(&mut self, limit: Duration, context: &mut Context<'_>) -> bool {
        self.0.get_or_insert_with(|| Box::pin(sleep(limit))).as_mut().poll(context).is_ready()
    }

    fn shorten(&mut self, limit: Duration) {
        if let Some(sleep) = &mut self.0 {
            sleep.as_mut().reset(Instant::now() + limit);
        }
    }

    fn stop(&mut self) {
        self.0 = None;
    }
}

impl<T> Paced<T> {
    pub fn new(inner: T, activity: Arc<Activity>, slow: Duration) -> Paced<T> {
        let (write_clock, read_clock) = (WaitClock::default(), WaitClock::default());
        Paced { inner, activity, slow, write_clock, read_clock, head: false }
    }

    /// Cuts off a reader that takes nothing.
    fn written<R>(&mut self, done: Poll<io::Result<R>>, context: &mut Context<'_>) -> Poll<io::Result<R>> {
        match done {
            Poll::Ready(_) => self.write_clock.stop(),
            Poll::Pending if self.write_clock.is_over(self.slow, context) => {
                self.activity.slow.store(true, Ordering::Relaxed);
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
        let done = Pin::new(&mut this.inner).poll_read(context, buffer);
        if !this.activity.rests() {
            this.read_clock.stop();
            this.head = false;
            return done;
        }
        match done {
            Poll::Ready(_) => {
                if !std::mem::replace(&mut this.head, true) {
                    this.read_clock.shorten(HEAD);
                }
                done
            }
            Poll::Pending => {
                let limit = if this.head { HEAD } else { REST };
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
