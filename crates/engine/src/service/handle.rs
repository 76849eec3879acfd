//! The caller's end of a request.

use crate::{
    error::EngineError,
    events::output::Event,
    request::{Request, Task},
    service::{
        mailbox::Inbox,
        message::{Fault, Waker},
    },
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{RecvTimeoutError, TryRecvError},
    },
    task::{Context, Poll},
    time::Duration,
};

/// The caller's end of a request: blocking, with a time limit, or polled. Dropping it cancels the request.
///
/// A request that the engine can no longer answer brings the cause as its last event.
pub struct Handle {
    inbox: Inbox,
    canceller: Canceller,
    fault: Fault,
    /// Answers that have not ended.
    open: AtomicUsize,
}

/// Asks for the early end of a request, from any thread, while another one waits for its events. Clones are the same.
#[derive(Clone)]
pub struct Canceller {
    cancel: Arc<AtomicBool>,
    engine: Waker,
}

impl Canceller {
    /// Asks for an early end; the last event says `Cancelled`. A request that has ended is none the wiser.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
        self.engine.wake();
    }
}

impl Handle {
    pub(crate) fn new(request: &Request, inbox: Inbox, engine: Waker, fault: Fault) -> Handle {
        let open = match &request.task {
            Task::Generate(g) => g.n,
            Task::Beams(task) => task.n,
            Task::Pass(_) => 1,
        };
        let canceller = Canceller { cancel: request.cancel.clone(), engine };
        Handle { inbox, canceller, fault, open: AtomicUsize::new(open) }
    }

    /// Waits for the next event; none when the request is over.
    pub fn next(&self) -> Option<Event> {
        self.inbox.next().map_or_else(|| self.cause(), |event| Some(self.count(event)))
    }

    /// Waits for the next event for at most `time`.
    ///
    /// # Errors
    /// `Timeout` when none came, `Disconnected` when the request is over.
    pub fn next_within(&self, time: Duration) -> Result<Event, RecvTimeoutError> {
        match self.inbox.next_within(time) {
            Err(RecvTimeoutError::Disconnected) => self.cause().ok_or(RecvTimeoutError::Disconnected),
            other => other.map(|event| self.count(event)),
        }
    }

    /// The next event if there is one.
    ///
    /// # Errors
    /// `Empty` when none has come yet, `Disconnected` when the request is over.
    pub fn try_next(&self) -> Result<Event, TryRecvError> {
        match self.inbox.try_next() {
            Err(TryRecvError::Disconnected) => self.cause().ok_or(TryRecvError::Disconnected),
            other => other.map(|event| self.count(event)),
        }
    }

    /// The next event, or a wake-up when it has come; ready with none when the request is over.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        match self.inbox.poll_next(context) {
            Poll::Ready(None) => Poll::Ready(self.cause()),
            other => other.map(|event| event.map(|event| self.count(event))),
        }
    }

    /// Asks for an early end; the last event says `Cancelled`.
    pub fn cancel(&self) {
        self.canceller.cancel();
    }

    /// What cancels it from other threads.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    fn count(&self, event: Event) -> Event {
        match &event {
            Event::Finished { .. } => _ = self.open.fetch_sub(1, Ordering::Relaxed),
            Event::Failed(_) => self.open.store(0, Ordering::Relaxed),
            Event::Prompt { .. } | Event::Progress { .. } | Event::Token(_) => {}
        }
        event
    }

    /// Why the events have ended, told once and only where answers are missing.
    fn cause(&self) -> Option<Event> {
        let open = self.open.swap(0, Ordering::Relaxed);
        (open > 0).then(|| Event::Failed(self.fault.get().cloned().unwrap_or(EngineError::Closed)))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.cancel();
    }
}
