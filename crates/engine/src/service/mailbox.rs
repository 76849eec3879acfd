//! The queue between the engine's thread and the reader of one request.
//!
//! Channels of libraries bring either blocking reads with a time limit or asynchronous ones, and none tells the writer
//! that there is room again. This one is read in all three ways and wakes the engine when a full queue has been read.

use crate::events::{
    output::Event,
    sink::{Gone, Sink},
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{RecvTimeoutError, TryRecvError},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

/// A queue of events with room for `capacity`; `wake` is called by the reader whenever a full one has room again.
pub(crate) fn mailbox(capacity: usize, wake: Box<dyn Fn() + Send + Sync>) -> (Outbox, Inbox) {
    let shared = Arc::new(Shared { queue: Mutex::default(), arrived: Condvar::new(), capacity, wake });
    (Outbox(shared.clone()), Inbox(shared))
}

struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
    capacity: usize,
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    /// The writer has gone away: what is queued is all that comes.
    ended: bool,
    /// The reader has gone away.
    unread: bool,
    /// Who polls.
    waker: Option<Waker>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the first event; `Err` tells whether others may come.
    fn take(&self, mut queue: MutexGuard<'_, Queue>) -> Result<Event, TryRecvError> {
        let full = queue.events.len() >= self.capacity;
        let Some(event) = queue.events.pop_front() else {
            return Err(if queue.ended { TryRecvError::Disconnected } else { TryRecvError::Empty });
        };
        let room = queue.events.len() < self.capacity;
        drop(queue);
        if full && room {
            (self.wake)();
        }
        Ok(event)
    }

    fn tell(&self, mut queue: MutexGuard<'_, Queue>) {
        let waker = queue.waker.take();
        drop(queue);
        self.arrived.notify_one();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The engine's end.
pub(crate) struct Outbox(Arc<Shared>);

impl Sink for Outbox {
    fn room(&self) -> bool {
        self.0.lock().events.len() < self.0.capacity
    }

    fn send(&mut self, event: Event) -> Result<(), Gone> {
        let mut queue = self.0.lock();
        if queue.unread {
            return Err(Gone);
        }
        queue.events.push_back(event);
        self.0.tell(queue);
        Ok(())
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.ended = true;
        self.0.tell(queue);
    }
}

/// The reader's end.
pub(crate) struct Inbox(Arc<Shared>);

impl Inbox {
    /// Waits for the next event; none when all have been read.
    pub fn next(&self) -> Option<Event> {
        let queue = self.0.lock();
        let waiting = |q: &mut Queue| q.events.is_empty() && !q.ended;
        let queue = self.0.arrived.wait_while(queue, waiting).unwrap_or_else(PoisonError::into_inner);
        self.0.take(queue).ok()
    }

    /// Waits for the next event for at most `time`.
    pub fn next_within(&self, time: Duration) -> Result<Event, RecvTimeoutError> {
        // A time that no clock can express is forever.
        let Some(end) = Instant::now().checked_add(time) else {
            return self.next().ok_or(RecvTimeoutError::Disconnected);
        };
        let mut queue = self.0.lock();
        while queue.events.is_empty() && !queue.ended {
            let Some(left) = end.checked_duration_since(Instant::now()).filter(|d| !d.is_zero()) else {
                return Err(RecvTimeoutError::Timeout);
            };
            queue = self.0.arrived.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.0.take(queue).map_err(|_| RecvTimeoutError::Disconnected)
    }

    /// The next event if there is one.
    pub fn try_next(&self) -> Result<Event, TryRecvError> {
        self.0.take(self.0.lock())
    }

    /// The next event, or a wake-up when it has come; ready with none when all have been read.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut queue = self.0.lock();
        if queue.events.is_empty() && !queue.ended {
            queue.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(self.0.take(queue).ok())
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.unread = true;
        queue.events.clear();
        drop(queue);
        // Its sequences may be paused: they have to end now.
        (self.0.wake)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::EngineError;
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn event() -> Event {
        Event::Failed(EngineError::Closed)
    }

    fn counted(capacity: usize) -> (Outbox, Inbox, Arc<Count>) {
        let count = Arc::new(Count::default());
        let wakes = count.clone();
        let (out, inbox) = mailbox(capacity, Box::new(move || wakes.clone().wake()));
        (out, inbox, count)
    }

    #[test]
    fn reading_a_full_queue_wakes_the_writer() {
        let (mut out, inbox, wakes) = counted(2);
        assert!(out.room());
        (0..3).for_each(|_| out.send(event()).expect("read"));
        assert!(!out.room());
        inbox.try_next().expect("queued");
        assert!(!out.room() && wakes.0.load(Ordering::SeqCst) == 0, "two are left: still full");
        inbox.try_next().expect("queued");
        assert!(out.room() && wakes.0.load(Ordering::SeqCst) == 1);
        inbox.try_next().expect("queued");
        assert_eq!(inbox.try_next(), Err(TryRecvError::Empty));
        drop(inbox);
        assert_eq!(out.send(event()), Err(Gone));
        assert_eq!(wakes.0.load(Ordering::SeqCst), 2, "a reader that goes away is told too");
    }

    #[test]
    fn polls_are_woken_by_events_and_by_the_end() {
        let (mut out, inbox, _) = counted(9);
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let mut context = Context::from_waker(&waker);
        assert_eq!(inbox.poll_next(&mut context), Poll::Pending);
        out.send(event()).expect("read");
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert_eq!(inbox.poll_next(&mut context), Poll::Ready(Some(event())));
        assert_eq!(inbox.poll_next(&mut context), Poll::Pending);
        drop(out);
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
        assert_eq!(inbox.poll_next(&mut context), Poll::Ready(None));
    }

    #[test]
    fn waits_end_with_an_event_with_time_or_with_the_writer() {
        let (mut out, inbox, _) = counted(9);
        assert_eq!(inbox.next_within(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
        std::thread::scope(|s| {
            s.spawn(move || {
                std::thread::sleep(Duration::from_millis(5));
                out.send(event()).expect("read");
            });
            assert_eq!(inbox.next_within(Duration::MAX), Ok(event()));
            assert_eq!(inbox.next(), None);
        });
        assert_eq!(inbox.next_within(Duration::ZERO), Err(RecvTimeoutError::Disconnected));
    }
}
