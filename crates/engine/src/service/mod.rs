//! An engine on a thread of its own. Any number of threads send requests; they are batched.

pub(crate) mod handle;
pub(crate) mod mailbox;
pub(crate) mod message;

use crate::{
    engine::{
        Engine,
        intake::Intake,
        snapshot::{Board, Snapshot},
    },
    error::{EngineError, Result},
    events::output::Event,
    kv::{cache_part::SavedEntries, content::Name},
    request::{Pass, Request, Task, Terms, numbers::NumberRows, queue::Queue},
    sequence::Sequence,
    service::{
        handle::Handle,
        mailbox::mailbox,
        message::{Errand, Fault, Message, Waker},
    },
    trace::{EventLog, TraceDetail, TraceLooks},
};
use lamina_disk::Unwritten;
use lamina_plan::{Plan, Select};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

/// How often an engine whose sequences are all paused looks for deadlines and cancelled requests of sinks that do not
/// wake it.
const PATIENCE: Duration = Duration::from_millis(50);

/// Address space of its thread, with what it takes beside its stack.
const THREAD: usize = 4 << 20;

/// A running engine.
pub struct Service {
    messages: Waker,
    thread: Mutex<Option<JoinHandle<()>>>,
    context: usize,
    queue: Queue,
    board: Board,
    fault: Fault,
    intake: Intake,
}

impl Service {
    /// Moves `engine` to a thread of its own.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(engine: Engine) -> std::io::Result<Service> {
        let (sender, receiver) = channel();
        let (context, queue, board) =
            (engine.context(), Queue::new(engine.policy().max_queue), engine.board());
        let fault = Fault::default();
        let (cause, intake) = (fault.clone(), engine.intake());
        engine.publish();
        // A thread that gets its stack and nothing beside it ends the process.
        if !lamina_reserve::affordable(THREAD) {
            return Err(std::io::ErrorKind::OutOfMemory.into());
        }
        let (begun, begins) = channel();
        let thread = std::thread::Builder::new().name("lamina-engine".into()).spawn(move || {
            _ = begun.send(());
            run(engine, receiver, &cause);
        })?;
        // What the system gives a thread at its start is there before the first request: where there is no more memory by
        // then, that would end the process.
        _ = begins.recv();
        let messages = Waker::new(sender);
        Ok(Service { messages, thread: Mutex::new(Some(thread)), context, queue, board, fault, intake })
    }

    /// Longest sequence in tokens.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Sends a request, with the scale of each adapter; its events come through the handle.
    ///
    /// # Errors
    /// When as many requests wait as may, or the service has ended: the cause.
    pub fn submit(&self, prompt: Vec<u32>, lora: Arc<[f32]>, task: Task, terms: Terms) -> Result<Handle> {
        self.submit_rows(prompt, vec![], lora, task, terms)
    }

    /// [`Service::submit`] with rows of numbers in the place of some of the tokens.
    ///
    /// # Errors
    /// As for [`Service::submit`].
    pub fn submit_rows(
        &self,
        prompt: Vec<u32>,
        rows: Vec<NumberRows>,
        lora: Arc<[f32]>,
        task: Task,
        terms: Terms,
    ) -> Result<Handle> {
        let waker = self.waker();
        let (events, inbox) = mailbox(terms.backlog, Box::new(move || waker.wake()));
        let request = Request { rows, lora, terms, ..Request::new(prompt, task, Box::new(events)) };
        let handle = Handle::new(&request, inbox, self.waker(), self.fault.clone());
        self.send(request).map(|()| handle)
    }

    /// Sends a request whose events go where it says. A sink that has room again calls [`Service::waker`]. The request is
    /// prepared here, on the caller's thread: what can never run fails before this returns.
    ///
    /// # Errors
    /// When as many requests wait as may, or the service has ended: the cause.
    pub fn send(&self, request: Request) -> Result<()> {
        let place = self.queue.enter()?;
        match self.intake.prepare(request) {
            // Its caller was told.
            None => Ok(()),
            Some(s) => self.messages.send(Message::Sequence(Box::new(s), place)).map_err(|()| self.cause()),
        }
    }

    /// Wakes the engine for sinks that have room again.
    pub fn waker(&self) -> Waker {
        self.messages.clone()
    }

    /// Records what the engine does from now on, in `detail`; none stops it. Returns what was recorded before. Waits for the
    /// step that runs.
    pub fn record(&self, detail: Option<TraceDetail>) -> Option<EventLog> {
        self.between_steps(move |engine| engine.record(detail)).ok()?
    }

    /// Records everything from now on, and of what lies between operators only `looks`. What was recorded before is lost.
    pub fn look(&self, looks: TraceLooks) {
        let _ = self.between_steps(move |engine| engine.look(Some(TraceDetail::Inside), looks));
    }

    /// A copy of what was recorded so far; none where nothing is.
    pub fn recorded(&self) -> Option<EventLog> {
        self.between_steps(|engine| engine.recorded()).ok()?
    }

    /// The plan that the machine runs.
    pub fn plan(&self) -> Option<Plan> {
        self.between_steps(|engine| engine.machine().plan().clone()).ok()
    }

    /// What tells models, options and versions apart whose numbers differ; none where computed beginnings are not kept.
    pub fn fingerprint(&self) -> Option<Name> {
        self.intake.namer().map(|namer| *namer.model())
    }

    /// What memory has of a text that begins with `tokens`, `rows` in the places of some, as bytes.
    ///
    /// # Errors
    /// When `tokens` are no text for this model, the machine fails, or the service has ended.
    pub fn export_text(
        &self,
        tokens: Vec<u32>,
        rows: Vec<NumberRows>,
        lora: Arc<[f32]>,
    ) -> Result<Vec<Unwritten>> {
        let s = self.text(tokens, rows, lora)?;
        self.between_steps(move |engine| engine.export_text(&s))?
    }

    /// Puts what [`Service::export_text`] gave of a text back into memory, as far as there is room. Returns how many of its
    /// tokens need not be computed.
    ///
    /// # Errors
    /// As for [`Service::export_text`].
    pub fn import_text(
        &self,
        tokens: Vec<u32>,
        rows: Vec<NumberRows>,
        lora: Arc<[f32]>,
        entries: SavedEntries,
    ) -> Result<usize> {
        let s = self.text(tokens, rows, lora)?;
        self.between_steps(move |engine| engine.import_text(&s, &entries))?
    }

    /// The sequence of a text that nothing is asked of, with one token behind it so that all of its pages have names.
    fn text(&self, mut tokens: Vec<u32>, mut rows: Vec<NumberRows>, lora: Arc<[f32]>) -> Result<Sequence> {
        tokens.truncate(self.context.saturating_sub(1));
        tokens.push(0);
        rows.retain(|rows| rows.places().end < tokens.len());
        let (events, inbox) = channel();
        let pass = Pass { hidden: None, rows: Select::None, second: None, sink: Box::new(|_, _| {}) };
        let request = Request { rows, lora, ..Request::new(tokens, Task::Pass(pass), Box::new(events)) };
        self.intake.prepare(request).ok_or_else(|| match inbox.try_recv() {
            Ok(Event::Failed(e)) => e,
            _ => EngineError::EmptyPrompt,
        })
    }

    /// Does something on the engine's thread, while its machine is at rest.
    fn between_steps<T: Send + 'static>(
        &self,
        errand: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Result<T> {
        let (answer, receiver) = channel();
        // Who asked may have gone away meanwhile.
        let errand: Errand = Box::new(move |engine| _ = answer.send(errand(engine)));
        self.messages.send(Message::Errand(errand)).map_err(|()| self.cause())?;
        receiver.recv().map_err(|_| self.cause())
    }

    /// Calls `done` once all that is computed by now lies in the store on disk. It is dropped where there is no store, its
    /// disk refuses, or the service ends before.
    pub fn when_kept(&self, done: impl FnOnce() + Send + 'static) {
        let errand: Errand = Box::new(move |engine| engine.when_kept(Box::new(done)));
        // Whoever waits for an engine that has ended hears of it by the drop.
        let _ = self.messages.send(Message::Errand(errand));
    }

    /// The engine's state after its last step, or after requests came in. Never waits for a step.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.board.read()
    }

    /// Why the service can serve no more; none while it can.
    pub fn fault(&self) -> Option<EngineError> {
        self.fault.get().cloned()
    }

    /// Ends the thread. Running requests end with [`EngineError::Closed`].
    pub fn close(&self) {
        let _ = self.messages.send(Message::Close);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Panics are caught inside the thread.
        let _ = thread.map(JoinHandle::join);
    }

    fn cause(&self) -> EngineError {
        self.fault().unwrap_or(EngineError::Closed)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.close();
    }
}

/// The engine's thread: serves until it is closed, the device is lost, or something panics. Everybody who waits is told.
fn run(mut engine: Engine, messages: Receiver<Message>, fault: &Fault) {
    let served = catch_unwind(AssertUnwindSafe(|| serve(&mut engine, &messages)));
    let cause = served.unwrap_or_else(|payload| EngineError::Panic(panic_text(&*payload)));
    // Set before anybody can notice the end.
    let cause = fault.get_or_init(|| cause);
    // What a panic has left half done may panic again; dropping the sinks tells the rest of the callers.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        engine.fail_all(cause);
        if *cause == EngineError::Closed {
            engine.save_all();
        }
        engine.publish();
    }));
    drop(messages);
}

/// Serves until nobody can be served any more; returns why.
fn serve(engine: &mut Engine, messages: &Receiver<Message>) -> EngineError {
    let mut stalled = false;
    let mut inbox = Messages::default();
    loop {
        // Without work, and with all of the cache saved, the thread sleeps until a message comes.
        let next = match (engine.idle(), stalled) {
            // What came beside the last step comes first: with it the caller of `close` waits for this thread.
            _ if inbox.holds() => None,
            (true, _) => match engine.save_idle() {
                Some(wait) => within(wait, messages),
                None => Some(messages.recv().unwrap_or(Message::Close)),
            },
            (false, true) => within(PATIENCE, messages),
            (false, false) => None,
        };
        inbox.take(engine, next, messages);
        // The machine is at rest.
        inbox.errands.drain(..).for_each(|errand| errand(engine));
        if inbox.closed {
            return EngineError::Closed;
        }
        if !engine.idle() {
            stalled = !engine.step_beside(&mut |engine| inbox.take(engine, None, messages));
            engine.publish();
        }
        if let Some(lost) = engine.lost() {
            return lost.clone();
        }
    }
}

/// The message that comes within a time, if one does.
fn within(time: Duration, messages: &Receiver<Message>) -> Option<Message> {
    match messages.recv_timeout(time) {
        Err(RecvTimeoutError::Disconnected) => Some(Message::Close),
        other => other.ok(),
    }
}

/// Messages that wait for the machine.
#[derive(Default)]
struct Messages {
    errands: Vec<Errand>,
    closed: bool,
}

impl Messages {
    /// True where something was taken that the machine's rest is needed for.
    fn holds(&self) -> bool {
        self.closed || !self.errands.is_empty()
    }

    /// Takes `first` and all messages that have come, and hands new sequences to the engine.
    fn take(&mut self, engine: &mut Engine, first: Option<Message>, messages: &Receiver<Message>) {
        let mut news = false;
        let mut next = first.or_else(|| messages.try_recv().ok());
        while let Some(message) = next {
            match message {
                Message::Sequence(s, place) => {
                    engine.enqueue(*s, place);
                    news = true;
                }
                Message::Errand(errand) => self.errands.push(errand),
                Message::Wake => {}
                Message::Close => self.closed = true,
            }
            next = messages.try_recv().ok();
        }
        if news {
            engine.publish();
        }
    }
}

/// What a panic said.
fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".into())
}
