//! The threads of a server, all of which start with it and stay: a thread that is started under load may not be had, or
//! end the process where its stack leaves no memory.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};

/// How long idle threads stay; the largest time is none that every system can wait for.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
/// Threads of a pool for templates and tokenizers.
const HELPERS: usize = 2;
/// Address space of a thread, with what it takes beside its stack: one that gets only that ends the process.
const THREAD: usize = 4 << 20;

/// Refuses to start where there is no memory for all threads of a server: later nothing could refuse them.
pub fn affordable(http: usize) -> io::Result<()> {
    // Those of HTTP, the one that drives them, the one for large bodies, three pools, and the log's.
    let threads = http.max(1) + 2 + 3 * HELPERS + 1;
    match lamina_reserve::affordable(threads.saturating_mul(THREAD)) {
        true => Ok(()),
        false => Err(io::ErrorKind::OutOfMemory.into()),
    }
}

/// HTTP must not take cores from the kernels: one thread unless asked for more, and two for templates and tokenizers.
pub fn http(threads: usize) -> io::Result<Runtime> {
    let mut builder = match threads {
        0 | 1 => Builder::new_current_thread(),
        n => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(n);
            builder
        }
    };
    with_helpers(builder.thread_name("lamina-http"))
}

/// One thread beside those of HTTP, with a pool of its own.
pub fn beside() -> io::Result<Runtime> {
    with_helpers(Builder::new_multi_thread().worker_threads(1).thread_name("lamina-large"))
}

/// A pool that decodes pictures and sounds; nothing else runs there.
pub fn for_media() -> io::Result<Runtime> {
    with_helpers(Builder::new_current_thread().thread_name("lamina-media"))
}

fn with_helpers(builder: &mut Builder) -> io::Result<Runtime> {
    let runtime = builder.max_blocking_threads(HELPERS).thread_keep_alive(FOR_EVER).enable_all().build()?;
    let started = Arc::new(HelperCount::default());
    for _ in 0..HELPERS {
        let started = started.clone();
        // Each waits for the other, so neither takes the work of both.
        runtime.spawn_blocking(move || started.one_more());
    }
    match started.all() {
        true => Ok(runtime),
        false => Err(io::ErrorKind::OutOfMemory.into()),
    }
}

/// How many helpers there are.
#[derive(Default)]
struct HelperCount(Mutex<usize>, Condvar);

impl HelperCount {
    /// How long they wait for one another; where the system gives fewer threads, this ends it.
    const PATIENCE: Duration = Duration::from_secs(2);

    fn one_more(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.1.notify_all();
        self.all();
    }

    /// Waits for all; false when they do not come.
    fn all(&self) -> bool {
        let count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.1.wait_timeout_while(count, Self::PATIENCE, |count| *count < HELPERS);
        *waited.unwrap_or_else(PoisonError::into_inner).0 >= HELPERS
    }
}
