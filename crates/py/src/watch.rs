//! Waiting without a thread for each who waits: one thread of the process polls what has news, and calls Python when it
//! is ready. The engine's thread only puts it into a queue: it never waits for the interpreter's lock.

use crate::error::Result;
use lamina::shield;
use pyo3::prelude::*;
use std::{
    process,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Sender, channel},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
};

/// Ready when Python is to be called.
type Poller = Box<dyn FnMut(&mut Context<'_>) -> Poll<()> + Send>;

/// What is polled, and who is called then.
struct Watched {
    /// None once it is ready.
    open: Mutex<Option<(Poller, Py<PyAny>)>>,
    queue: Sender<Arc<Watched>>,
}

impl Wake for Watched {
    fn wake(self: Arc<Self>) {
        // The thread ends with the process.
        _ = self.queue.clone().send(self);
    }
}

impl Watched {
    fn poll(self: Arc<Self>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((poller, _)) = open.as_mut() else { return };
        let waker = Waker::from(self.clone());
        let polled = shield(|| Ok(poller(&mut Context::from_waker(&waker))));
        // What panicked has no news to wait for; whoever reads it is told.
        if matches!(polled, Ok(Poll::Pending)) {
            return;
        }
        let call = open.take().map(|(_, call)| call);
        drop(open);
        // None while the interpreter ends: nobody waits any more.
        Python::try_attach(|py| {
            let called = call.map(|call| call.call0(py)).transpose();
            called.err().into_iter().for_each(|e| e.write_unraisable(py, None));
        });
    }
}

/// Calls `call` once when `poller` is ready: at once, or from the thread that polls.
pub fn watch(
    call: Py<PyAny>,
    poller: impl FnMut(&mut Context<'_>) -> Poll<()> + Send + 'static,
) -> Result<()> {
    let open = Mutex::new(Some((Box::new(poller) as Poller, call)));
    Arc::new(Watched { open, queue: queue()? }).poll();
    Ok(())
}

/// The queue of this process, and the process that its thread lives in: a fork needs another one.
static QUEUE: Mutex<Option<(u32, Sender<Arc<Watched>>)>> = Mutex::new(None);

fn queue() -> Result<Sender<Arc<Watched>>> {
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, sender)) = queue.as_ref().filter(|(owner, _)| *owner == process::id()) {
        return Ok(sender.clone());
    }
    let (sender, watched) = channel::<Arc<Watched>>();
    let serve = move || watched.into_iter().for_each(Watched::poll);
    let thread = thread::Builder::new().name("lamina-watch".into()).spawn(serve);
    thread.map_err(|e| lamina::Error::OutOfMemory(format!("no thread to wait for requests: {e}")))?;
    *queue = Some((process::id(), sender.clone()));
    Ok(sender)
}
