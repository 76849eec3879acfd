//! A running server: its thread, its address, its end.

mod connection;
mod front;
mod large;
mod listen;
mod logged;
mod open;
mod pace;
mod signals;
mod tls;
mod upload;
mod worker;

use crate::{
    api,
    app::App,
    gateway::Gateway,
    guard::{Access, KeyRing},
    models::{Phase, Registry},
    options::ServeOptions,
    threads,
};
use connection::Connections;
use front::Front;
use large::LargeBodies;
use listen::Listening;
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::JoinHandle,
    time::Duration,
};
use tls::Tls;
use tokio_util::sync::CancellationToken;
use worker::ServerWorker;

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
    /// A gateway is not reached, or takes this replica not in.
    #[error("the gateway at {address} is not joined: {why}")]
    Gateway {
        /// As it was given.
        address: String,
        /// What was tried last.
        why: String,
    },
    /// Prompts are to be computed for other replicas, and there is no folder that they share.
    #[error(
        "a replica with the role prefill hands prompts on through a folder that all replicas share: give each of them \
         the same --cache-dir"
    )]
    Unshared,
    /// Replicas cannot be started.
    #[error("replicas cannot be started: {0}")]
    Replicas(std::io::Error),
    /// The system gives no thread.
    #[error("no thread for the server: {0}")]
    Thread(std::io::Error),
}

/// A running server. Dropping it drains and ends it.
pub struct Server {
    url: String,
    port: u16,
    app: App,
    gateway: Option<Gateway>,
    front: Arc<Front>,
    drain: CancellationToken,
    ended: Mutex<mpsc::Receiver<()>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Where signals are listened to.
    #[cfg(unix)]
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
        need_key(&options, &keys)?;
        let tls = Tls::read(&options).map_err(StartError::Access)?;
        let listening = Listening::open(&options)?;
        threads::affordable(options.http_threads).map_err(StartError::Thread)?;
        let runtime = threads::http(options.http_threads).map_err(StartError::Thread)?;
        let large = LargeBodies::start().map_err(StartError::Thread)?;
        let access = Access {
            origins: options.cors_origin.clone(),
            hosts: options.allowed_host.clone(),
            guards_host: listening.is_loopback() && keys.is_empty(),
            scheme: if tls.is_some() { "https" } else { "http" },
        };
        let (url, port) = (listening.url(access.scheme), listening.port());
        let app =
            App::new(options, models).map_err(StartError::Thread)?.sending().map_err(StartError::Access)?;
        let gateway = match app.options.has_gateway() {
            true => Some(Gateway::start(&app).map_err(StartError::Replicas)?),
            false => None,
        };
        let routes = match &gateway {
            Some(gateway) => gateway.routes(),
            None => {
                app.models.begin();
                api::routes().with_state(app.clone())
            }
        };
        let front = Arc::new(Front::new(app.clone(), access, keys, tls, large, routes));
        let drain = CancellationToken::new();
        let connections = Connections::new(front.clone(), drain.clone());
        #[cfg(unix)]
        let handle = runtime.handle().clone();
        let (over, ended) = mpsc::channel();
        let worker = ServerWorker { app: app.clone(), gateway: gateway.clone(), connections, runtime, over };
        let thread = std::thread::Builder::new().name("lamina-http".into()).spawn(|| worker.run(listening));
        let thread = Mutex::new(Some(thread.map_err(StartError::Thread)?));
        Ok(Server {
            url,
            port,
            app,
            gateway,
            front,
            drain,
            ended: Mutex::new(ended),
            thread,
            #[cfg(unix)]
            runtime: handle,
        })
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
        if let Some(gateway) = &self.gateway {
            while !gateway.is_ready()? && keep() {
                std::thread::sleep(Duration::from_millis(20));
            }
            return Ok(());
        }
        for slot in &self.app.models.first() {
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

    /// Names of the models that are loaded at the start; none of a gateway whose replicas join.
    pub fn models(&self) -> Vec<String> {
        self.app.models.first().iter().map(|s| s.name.clone()).collect()
    }

    /// Where replicas join that others start; none where they do not.
    pub fn join_address(&self) -> Option<SocketAddr> {
        self.gateway.as_ref().and_then(Gateway::join_address)
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

/// Recordings show texts, so that nobody without a key may have them.
fn need_key(options: &ServeOptions, keys: &KeyRing) -> Result<(), StartError> {
    match options.debug_trace && keys.is_empty() {
        true => {
            let text = "--debug-trace shows texts, and needs a key: give --api-key or --admin-key";
            Err(StartError::Access(text.into()))
        }
        false => Ok(()),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.drain();
        self.wait();
    }
}
