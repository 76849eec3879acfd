//! Messages to the engine's thread, and the error that it ends with.

use crate::{engine::Engine, error::EngineError, request::queue::QueuePlace, sequence::Sequence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc::Sender};

/// Something to do on the engine's thread, while its machine is at rest.
pub(crate) type Errand = Box<dyn FnOnce(&mut Engine) + Send>;

/// A message to the engine's thread.
pub(crate) enum Message {
    /// A request that was prepared, and its place in the queue.
    Sequence(Box<Sequence>, QueuePlace),
    /// Something to do between steps.
    Errand(Errand),
    /// A paused request may go on, or has ended.
    Wake,
    Close,
}

/// Why the service has ended, once it has.
pub(crate) type Fault = Arc<OnceLock<EngineError>>;

/// Wakes an engine that has nothing to do but paused requests. Clones wake the same engine.
#[derive(Clone)]
pub struct Waker(Arc<Mutex<Sender<Message>>>);

impl Waker {
    pub(crate) fn new(messages: Sender<Message>) -> Waker {
        Waker(Arc::new(Mutex::new(messages)))
    }

    /// Looks at the paused requests again.
    pub fn wake(&self) {
        // An engine that has ended needs no waking.
        let _ = self.send(Message::Wake);
    }

    pub(crate) fn send(&self, message: Message) -> std::result::Result<(), ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).send(message).map_err(|_| ())
    }
}
