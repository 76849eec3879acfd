//! `_lamina.Server`: a running HTTP server.

use crate::{
    discard::discard,
    error::{Result, invalid},
    model::Model,
    options::{RequestOptions, request_options},
    wait::{CallWatch, POLL, detached, interruptible, silent},
};
use lamina_serve::{ModelOrigin, ServeOptions, Server, StartError};
use pyo3::{prelude::*, types::PyDict};
use std::{
    path::{Path, PathBuf},
    process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A model to serve: its name, and either where it is or itself.
type Served = (Option<String>, Option<PathBuf>, Option<Py<Model>>);

/// A running HTTP server, until it is closed.
#[pyclass(frozen, name = "Server", module = "lamina._lamina")]
pub struct HttpServer {
    server: Mutex<Option<Arc<Server>>>,
    url: String,
    port: u16,
    /// Process that the server's threads live in.
    process: u32,
}

impl HttpServer {
    fn held(&self) -> MutexGuard<'_, Option<Arc<Server>>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl HttpServer {
    #[new]
    fn start(
        py: Python<'_>,
        models: Vec<Served>,
        config: Option<PathBuf>,
        options: Vec<(String, String)>,
        sampling: &Bound<'_, PyDict>,
    ) -> Result<HttpServer> {
        let RequestOptions { generate, .. } = request_options(sampling)?;
        let mut given = ServeOptions { sampling: generate.sampling, quiet: true, ..ServeOptions::default() };
        if let Some(path) = config {
            read(&mut given, &path)?;
        }
        for (name, value) in options {
            given.put(&name, &value).map_err(|e| invalid(e.to_string()))?;
        }
        for model in models {
            given.models.push(origin(py, model)?);
        }
        interruptible(py, silent, |keep| given.locate(&CallWatch(keep)))?;
        let server = Arc::new(detached(py, || Server::start(given).map_err(refusal))?);
        let ready =
            interruptible(py, silent, |keep| server.ready(|| keep(0, 0)).map_err(lamina::Error::Runtime));
        if ready.is_err() {
            server.abort();
        }
        ready?;
        let (url, port) = (server.url().to_owned(), server.port());
        Ok(HttpServer { server: Mutex::new(Some(server)), url, port, process: process::id() })
    }

    /// Where it listens.
    fn url(&self) -> &str {
        &self.url
    }

    /// The port.
    fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the end.
    fn wait(&self, py: Python<'_>) -> Result<()> {
        if self.process != process::id() {
            let what = "the process was forked after the server was started: it runs in the parent process";
            return Err(lamina::Error::Runtime(what.into()).into());
        }
        let Some(server) = self.held().clone() else { return Ok(()) };
        interruptible(py, silent, |keep| {
            while !server.wait_within(POLL) && keep(0, 0) {}
            Ok(())
        })
    }

    /// Begins the end: what runs goes on for a while, new requests are refused.
    fn drain(&self) {
        // A fork has none of the server's threads, and a lock that one of them held stays locked there.
        if self.process == process::id() {
            self.held().iter().for_each(|server| server.drain());
        }
    }

    /// Drains it, and waits for the end.
    fn close(&self, py: Python<'_>) -> Result<()> {
        // A fork has none of the server's threads.
        if self.process != process::id() {
            return Ok(());
        }
        let Some(server) = self.held().take() else { return Ok(()) };
        server.drain();
        detached(py, move || {
            server.wait();
            Ok(())
        })
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let server = self.server.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(server) = server {
            if self.process == process::id() {
                server.abort();
            }
            discard(self.process, server);
        }
    }
}

fn origin(py: Python<'_>, (name, path, model): Served) -> Result<ModelOrigin> {
    Ok(match model {
        Some(model) => {
            let model = model.borrow(py).get()?;
            let file = PathBuf::from(&model.info().path);
            let stem = || file.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            ModelOrigin::Loaded { name: name.unwrap_or_else(stem), model }
        }
        None => ModelOrigin::Path { name, path, settings: None },
    })
}

fn read(options: &mut ServeOptions, path: &Path) -> Result<()> {
    let told = |what: String| invalid(format!("{}: {what}", path.display()));
    let text = lamina::files::read_text(path).map_err(|e| told(e.to_string()))?;
    options.read(&text, path.parent().unwrap_or(Path::new("."))).map_err(told)
}

fn refusal(e: StartError) -> lamina::Error {
    match e {
        StartError::Model(e) => e,
        StartError::Access(what) => lamina::Error::InvalidRequest(what),
        e => lamina::Error::Runtime(e.to_string()),
    }
}
