//! The endpoints of one model in this process, without a socket: what other languages call, with the fields, the errors and the
//! templates of the server.

mod details;
mod request;
mod wait;

pub use request::{DetailedDelta, LocalRequest};

use crate::{
    api,
    app::App,
    call::{CallContext, Caller, RunTaker},
    error::{ApiError, Cause},
    log::RequestLog,
    models::Registry,
    options::{ModelOrigin, ModelSettings, ServeOptions},
    run::ids,
    threads::beside,
};
use axum::{Router, body::Body, response::Response};
use http::{Method, Request, header};
use http_body_util::BodyExt;
use lamina::{Error, LoadOptions, Model, Progress, Result};
use serde_json::{Map, Value};
use std::{path::Path, sync::Arc};
use tokio::runtime::Runtime;
use tower_service::Service;

/// A model with the endpoints of a server, in this process.
pub struct LocalServer {
    model: Model,
    app: App,
    routes: Router,
    /// None once it is dropped.
    runtime: Option<Runtime>,
}

/// All of a response.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalResponse {
    /// Status of HTTP.
    pub status: u16,
    /// Its body, JSON for most endpoints.
    pub body: Vec<u8>,
}

impl LocalServer {
    /// Loads the model at `path`, or the one inside the package.
    ///
    /// # Errors
    /// As for [`Model::load_with`]; also when a setting of its answers cannot be followed.
    pub fn load(path: Option<&Path>, settings: ModelSettings, progress: Progress<'_>) -> Result<LocalServer> {
        let loras = settings.lora.iter().map(|l| (l.called().to_owned(), l.path.clone())).collect();
        let load = LoadOptions { loras, ..settings.load.clone() };
        let model = Model::load_with(path, &load, progress)?;
        let stem = |path: &Path| path.file_stem().map(|s| s.to_string_lossy().into_owned());
        let name = stem(model.info().path.as_ref()).unwrap_or_default();
        let models = vec![ModelOrigin::Loaded { name, model: model.clone() }];
        let options =
            ServeOptions { models, model: settings, quiet: true, no_trace: true, ..ServeOptions::default() };
        let no_thread = |e: std::io::Error| Error::OutOfMemory(format!("no thread for requests: {e}"));
        let models = Registry::new(&options)?;
        let app = App::new(options, models).map_err(no_thread)?;
        app.models.begin();
        let routes = api::routes().with_state(app.clone());
        let runtime = Some(beside().map_err(no_thread)?);
        let server = LocalServer { model, app, routes, runtime };
        // The model is there: what can be wrong now is its template.
        server.wait(server.app.models.lease(None)).map_err(|e| Error::InvalidRequest(e.message))?;
        Ok(server)
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Begins to answer `request`: the body of POST /v1/chat/completions where it has `messages`, else of POST
    /// /v1/completions.
    ///
    /// # Errors
    /// Whatever the endpoint refuses, in its words.
    pub fn submit(&self, request: &str) -> Result<LocalRequest> {
        let wrong = |e: serde_json::Error| Error::InvalidRequest(format!("the request cannot be read: {e}"));
        let mut fields: Map<String, Value> = serde_json::from_str(request).map_err(wrong)?;
        let path = match fields.contains_key("messages") {
            true => "/v1/chat/completions",
            false => "/v1/completions",
        };
        fields.insert("stream".into(), true.into());
        let taker = RunTaker::default();
        let mut request = self.request(Method::POST, path, Value::Object(fields).to_string())?;
        request.extensions_mut().insert(taker.clone());
        self.wait(self.answer(request))?;
        let lost =
            || Error::Runtime("a fault inside Lamina, please report it: a request came to no run".into());
        Ok(LocalRequest::new(taker.take().ok_or_else(lost)?))
    }

    /// Calls an endpoint of the server, such as `POST /v1/embeddings`; the method may be left out where a body makes it POST
    /// and none GET. `sink` is given the response piece by piece, and ends it by returning false.
    ///
    /// # Errors
    /// Whatever the endpoint refuses, in its words.
    pub fn call(
        &self,
        endpoint: &str,
        body: Option<&str>,
        sink: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let usual = if body.is_some() { Method::POST } else { Method::GET };
        let (method, path) = match endpoint.split_once(' ') {
            None => (usual, endpoint),
            Some((method, path)) => {
                let wrong = |_| Error::InvalidRequest(format!("{method} is no method of HTTP"));
                (method.parse().map_err(wrong)?, path.trim())
            }
        };
        let request = self.request(method, path, body.unwrap_or_default().to_owned())?;
        self.wait(async {
            let mut body = self.answer(request).await?.into_body();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|e| Error::Runtime(e.to_string()))?;
                if frame.data_ref().is_some_and(|data| !sink(data)) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Posts `body` to an endpoint and waits for all of its response, which is also how it refuses.
    ///
    /// # Errors
    /// When `path` is none, or the response breaks off.
    pub fn post(&self, path: &str, body: String) -> Result<LocalResponse> {
        let request = self.request(Method::POST, path, body)?;
        self.wait(async {
            let response = match self.routes.clone().call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.map_err(|e| Error::Runtime(e.to_string()))?;
            Ok(LocalResponse { status, body: body.to_bytes().into() })
        })
    }

    /// The text that a conversation becomes: `request` is the body of POST /apply-template.
    ///
    /// # Errors
    /// Whatever the endpoint refuses, in its words.
    pub fn chat_prompt(&self, request: &str) -> Result<String> {
        let mut text = vec![];
        self.call("POST /apply-template", Some(request), &mut |piece| {
            text.extend_from_slice(piece);
            true
        })?;
        let response: Value = serde_json::from_slice(&text).unwrap_or_default();
        let lost = || Error::Runtime("a fault inside Lamina, please report it: no prompt came".into());
        response["prompt"].as_str().map(str::to_owned).ok_or_else(lost)
    }

    fn request(&self, method: Method, path: &str, body: String) -> Result<Request<Body>> {
        let id: Arc<str> = ids::fresh("req-").into();
        let log = RequestLog::new(id.clone(), "local".into(), method.as_str(), path);
        let caller = Caller { tenant: "local".into(), key: None, share: 1.0, priority: 0, admin: true };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONTENT_LENGTH, body.len())
            .extension(CallContext { caller, id, log });
        let wrong = |_| Error::InvalidRequest(format!("{path} is no path of an endpoint"));
        request.body(Body::from(body)).map_err(wrong)
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response> {
        let response = match self.routes.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        match response.extensions().get::<ApiError>() {
            Some(error) => Err(refused(error)),
            None => Ok(response),
        }
    }

    /// Runs a future on this thread; timers and the pool are the runtime's.
    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        // Not the runtime's own `block_on`, which panics on threads of another one: callers may have theirs.
        let _timers = self.runtime.as_ref().map(Runtime::enter);
        wait::wait(future)
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        // Requests go on: each keeps the model.
        if let Some(runtime) = self.runtime.take() {
            // What still runs on its pool ends by itself.
            runtime.shutdown_background();
        }
    }
}

/// A refusal by what the caller can do about it.
fn refused(error: &ApiError) -> Error {
    let text = error.message.clone();
    match error.cause {
        Cause::Unsupported => Error::Unsupported(text),
        Cause::Unavailable => Error::OutOfMemory(text),
        Cause::Fault | Cause::Timeout | Cause::QueueFull => Error::Runtime(text),
        _ => Error::InvalidRequest(text),
    }
}
