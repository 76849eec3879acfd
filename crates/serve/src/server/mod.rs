//! A running server: its thread, its address, its end.

mod connection;
mod front;
mod listen;
mod logged;
mod pace;
mod signals;
mod tls;

use crate::{
    app::App,
    guard::{Access, KeyRing},
    models::{Phase, Registry},
    options::ServeOptions,
};
use connection::Connections;
use front::Front;
use listen::Listening;
use std::{
    sync::{Arc, Condvar, Mutex, PoisonError, mpsc},
    thread::JoinHandle,
    time::Duration,
};
use tls::Tls;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A model or an option of it.
    #[error(transparent)]
    Model(#[from] lamina::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; give another --host or --port")]
    Listen {
        /// As it was given.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Keys or certificates cannot be read.
    #[error("{0}")]
    Access(String),
    /// The system gives no thread.
    #[error("no thread for the server: {0}")]
    Thread(std::io::Error),
}

/// A running server. Dropping it drains and ends it.
pub struct Server {
    url: String,
    port: u16,
    app: App,
    front: Arc<Front>,
    drain: CancellationToken,
    ended: Mutex<mpsc::Receiver<()>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    runtime: tokio::runtime::Handle,
}

impl Server {
    /// Listens, and begins to load the models. Whatever can be seen to be wrong is an error before anything is loaded.
    ///
    /// # Errors
    /// When there is no such model, the port is taken, or keys or certificates cannot be read.
    pub fn start(options: ServeOptions) -> Result<Server, StartError> {
        let models = Registry::new(&options)?;
        let keys = KeyRing::read(&options).map_err(|e| StartError::Access(e.to_string()))?;
        let tls = Tls::read(&options).map_err(StartError::Access)?;
        let listening = Listening::open(&options)?;
        room_for_threads(options.http_threads).map_err(StartError::Thread)?;
        let runtime = runtime(options.http_threads).map_err(StartError::Thread)?;
        let access = Access {
            origins: options.cors_origin.clone(),
            hosts: options.allowed_host.clone(),
            guards_host: listening.is_loopback() && keys.is_empty(),
            scheme: if tls.is_some() { "https" } else { "http" },
        };
        let (url, port) = (listening.url(access.scheme), listening.port());
        let app = App::new(options, models);
        app.models.begin();
        let front = Arc::new(Front::new(app.clone(), access, keys, tls));
        let drain = CancellationToken::new();
        let models = app.models.clone();
        let connections = Connections::new(front.clone(), drain.clone());
        let handle = runtime.handle().clone();
        let (over, ended) = mpsc::channel();
        let thread = std::thread::Builder::new().name("lamina-http".into()).spawn(move || {
            let idle = runtime.spawn(async move { models.forget_idle().await });
            runtime.block_on(connections.serve(listening));
            idle.abort();
            // What still runs on the pool ends by itself.
            runtime.shutdown_background();
            drop(over);
        });
        let thread = Mutex::new(Some(thread.map_err(StartError::Thread)?));
        Ok(Server { url, port, app, front, drain, ended: Mutex::new(ended), thread, runtime: handle })
    }

    /// Where it listens, such as `http://127.0.0.1:8080`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The port; 0 for a Unix socket.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What a start should tell: who may ask, and of what there is more to know.
    pub fn notes(&self) -> Vec<String> {
        self.front.notes()
    }

    /// Waits until the models that are loaded at the start are there, or have failed: the error of the first that has.
    /// `keep` is asked while it waits.
    ///
    /// # Errors
    /// Why a model cannot be loaded.
    pub fn ready(&self, mut keep: impl FnMut() -> bool) -> Result<(), String> {
        for slot in self.app.models.first() {
            loop {
                match slot.phase() {
                    Phase::Loading { .. } if keep() => std::thread::sleep(Duration::from_millis(20)),
                    Phase::Failed(failure) => return Err(failure.why),
                    _ => break,
                }
            }
        }
        Ok(())
    }

    /// Names of the models that are loaded at the start.
    pub fn models(&self) -> Vec<String> {
        self.app.models.first().iter().map(|s| s.name.clone()).collect()
    }

    /// Begins the end: new requests are refused, those that run or wait go on for the time that the options allow.
    pub fn drain(&self) {
        self.app.drain();
        self.drain.cancel();
    }

    /// Ends at once: what runs is cancelled.
    pub fn abort(&self) {
        self.drain();
        self.app.end.cancel();
    }

    /// Reads keys and certificates again.
    ///
    /// # Errors
    /// What is wrong with them; then the old ones stay.
    pub fn reload(&self) -> Result<(), String> {
        self.front.reload()
    }

    /// Waits for the end for at most `time`; true when it has come.
    pub fn wait_within(&self, time: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        !matches!(ended.recv_timeout(time), Err(mpsc::RecvTimeoutError::Timeout))
    }

    /// Waits for the end.
    pub fn wait(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A panic of the thread was told when it happened.
        _ = thread.map(JoinHandle::join);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.drain();
        self.wait();
    }
}

/// How long idle threads stay; the largest time is none that every system can wait for.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
/// Threads for templates and tokenizers.
const HELPERS: usize = 2;
/// Address space of a thread, with what it takes beside its stack: one that gets only that ends the process.
const THREAD: usize = 4 << 20;

/// Refuses to start where there is no memory for all threads of HTTP: later nothing could refuse them.
fn room_for_threads(http: usize) -> std::io::Result<()> {
    let threads = http.max(1) + HELPERS + 1;
    match lamina_reserve::affordable(threads.saturating_mul(THREAD)) {
        true => Ok(()),
        false => Err(std::io::ErrorKind::OutOfMemory.into()),
    }
}

/// HTTP must not take cores from the kernels: one thread unless asked for more, and two for templates and tokenizers,
/// which start at once and stay.
fn runtime(threads: usize) -> std::io::Result<Runtime> {
    let mut builder = match threads {
        0 | 1 => Builder::new_current_thread(),
        n => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(n);
            builder
        }
    };
    builder.max_blocking_threads(HELPERS).thread_keep_alive(FOR_EVER).thread_name("lamina-http");
    let runtime = builder.enable_all().build()?;
    let started = Arc::new(HelperCount::default());
    for _ in 0..HELPERS {
        let started = started.clone();
        // Each waits for the other, so neither takes the work of both.
        runtime.spawn_blocking(move || started.one_more());
    }
    match started.all() {
        true => Ok(runtime),
        false => Err(std::io::ErrorKind::OutOfMemory.into()),
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
