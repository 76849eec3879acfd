//! Where the events of a request go.

use crate::events::output::Event;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::Sender};

/// The reader of a request's events has gone away; the request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// Takes the events of a request, on the engine's thread. Neither method may block.
pub trait Sink: Send {
    /// Back-pressure: while this is false the request's sequences are paused. They get no rows and hold no place of those
    /// that run, keep their pages while nobody else needs them, and are the first to be preempted. Who makes room calls
    /// [`Waker::wake`](crate::Waker::wake).
    fn room(&self) -> bool;

    /// Takes an event. Room is asked for before a step, and a step may send a few events: they are taken even where
    /// the room has ended meanwhile.
    ///
    /// # Errors
    /// When nobody will read it.
    fn send(&mut self, event: Event) -> Result<(), Gone>;
}

/// A channel without bounds always has room.
impl Sink for Sender<Event> {
    fn room(&self) -> bool {
        true
    }

    fn send(&mut self, event: Event) -> Result<(), Gone> {
        Sender::send(self, event).map_err(|_| Gone)
    }
}

/// The sink of a request, which its `n` answers share.
#[derive(Clone)]
pub(crate) struct SharedSink(Arc<Mutex<Box<dyn Sink>>>);

impl SharedSink {
    pub fn new(sink: Box<dyn Sink>) -> SharedSink {
        SharedSink(Arc::new(Mutex::new(sink)))
    }

    pub fn room(&self) -> bool {
        self.lock().room()
    }

    pub fn send(&self, event: Event) -> Result<(), Gone> {
        self.lock().send(event)
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn Sink>> {
        // A sink that panicked ends the engine; until then its events still go out.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
