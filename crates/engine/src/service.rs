//! An engine on a thread of its own. Any number of threads send requests; they are batched.

use crate::{
    engine::Engine,
    error::EngineError,
    output::Event,
    request::{Request, Stage},
};
use lamina_plan::Profile;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

/// What the engine's thread is told.
enum Message {
    Request(Request),
    /// Starts or stops a profile and answers with what was taken so far.
    Profile(bool, Sender<Option<Profile>>),
    Stats(Sender<Stats>),
    Close,
}

/// How busy an engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Sequences that run.
    pub running: usize,
    /// Sequences that wait for memory.
    pub waiting: usize,
}

/// A running engine.
pub struct Service {
    sender: Mutex<Sender<Message>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    context: usize,
}

impl Service {
    /// Moves `engine` to a thread of its own.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(engine: Engine) -> std::io::Result<Service> {
        let (sender, receiver) = channel();
        let context = engine.context();
        let thread = std::thread::Builder::new()
            .name("lamina-engine".into())
            .spawn(move || serve(engine, &receiver))?;
        Ok(Service { sender: Mutex::new(sender), thread: Mutex::new(Some(thread)), context })
    }

    /// Longest sequence in tokens.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Sends a request, with the strength of each adapter; its events come through the handle.
    pub fn submit(&self, prompt: Vec<u32>, adapters: Arc<[f32]>, stage: Stage) -> Handle {
        let (events, receiver) = channel();
        let cancel = Arc::new(AtomicBool::new(false));
        let request = Request { prompt, adapters, stage, cancel: cancel.clone(), events };
        // Where the thread has ended, the events' sender is dropped with the request and the handle says so.
        let _ = self.send(Message::Request(request));
        Handle { events: receiver, cancel }
    }

    /// Starts (`true`) or stops taking the time of operators; returns what was taken so far.
    pub fn profile(&self, on: bool) -> Option<Profile> {
        self.ask(|answer| Message::Profile(on, answer)).flatten()
    }

    /// How busy the engine is; none when it was closed.
    pub fn stats(&self) -> Option<Stats> {
        self.ask(Message::Stats)
    }

    /// Ends the thread. Running requests end with [`EngineError::Closed`].
    pub fn close(&self) {
        let _ = self.send(Message::Close);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A panic of the thread was printed there; callers see closed handles.
        let _ = thread.map(JoinHandle::join);
    }

    fn ask<T>(&self, message: impl FnOnce(Sender<T>) -> Message) -> Option<T> {
        let (answer, receiver) = channel();
        self.send(message(answer)).ok()?;
        receiver.recv().ok()
    }

    fn send(&self, message: Message) -> Result<(), EngineError> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.send(message).map_err(|_| EngineError::Closed)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.close();
    }
}

fn serve(mut engine: Engine, messages: &Receiver<Message>) {
    loop {
        // Without work the thread sleeps until a message comes.
        let mut next = if engine.idle() { messages.recv().ok() } else { messages.try_recv().ok() };
        while let Some(message) = next {
            match message {
                Message::Request(r) => engine.add(r),
                // Who asked may have gone away meanwhile.
                Message::Profile(on, answer) => _ = answer.send(engine.machine().profile(on)),
                Message::Stats(answer) => {
                    let (running, waiting) = engine.load();
                    _ = answer.send(Stats { running, waiting });
                }
                Message::Close => return,
            }
            next = messages.try_recv().ok();
        }
        if !engine.idle() {
            engine.step();
        }
    }
}

/// The caller's end of a request. Dropping it cancels the request.
pub struct Handle {
    events: Receiver<Event>,
    cancel: Arc<AtomicBool>,
}

impl Handle {
    /// The next event; none when the request is over.
    pub fn next(&self) -> Option<Event> {
        self.events.recv().ok()
    }

    /// The next event within `time`.
    ///
    /// # Errors
    /// `Timeout` when none came, `Disconnected` when the request is over.
    pub fn next_within(&self, time: Duration) -> Result<Event, RecvTimeoutError> {
        self.events.recv_timeout(time)
    }

    /// Asks for an early end; the last event says `Cancelled`.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.cancel();
    }
}
