//! One HTTP request, with what every dialect needs to answer it.

mod chat;
mod common;
mod form;
mod infill;
mod media;
mod method;
mod pool;
mod prompts;
mod read;
mod seen_text;
mod start;
mod taker;
mod token_count;
mod tokens;
mod trace;

pub use chat::{ChatTurn, PromptTokens};
pub use form::response_format;
#[cfg(test)]
pub use form::{FORMAT, NAMED_SCHEMA};
pub use infill::{GapText, OtherFile};
pub use method::{delete, get, post, refusal};
pub use pool::{in_turn, pooled};
#[cfg(test)]
pub use seen_text::SEEN_PROMPT;
pub use seen_text::{MEDIA_MARKER, sent_files};
pub use taker::RunTaker;

use token_count::CountedRequest;

use crate::{
    app::App,
    body::{Body, BodyShare, FieldTable},
    dialect::Dialect,
    error::{ApiError, Cause},
    log::{AskedParams, RequestLog},
    models::{Lease, TextRoom},
    run::{AnswerJob, Attempt, Render, RenderedStream, Wishes, whole},
};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, header, request::Parts};
use lamina::{GenerateOptions, Special, Terms, sample::SamplingParams};
use serde_json::Value;
use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Bodies up to so many bytes are handled on the thread of HTTP; what is made of longer ones takes too long for it.
pub const SMALL_BODY: usize = 64 << 10;

/// Who asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Caller {
    /// Whom machine time is counted for: the key's name, else the peer's address.
    pub tenant: Arc<str>,
    /// Name of the key, where there is one.
    pub key: Option<Arc<str>>,
    /// How much of the machine's time it may have beside others.
    pub share: f64,
    /// The smallest priority that it may ask for, and has if it asks for none.
    pub priority: i32,
    /// It may do what changes the server for all.
    pub admin: bool,
}

/// What is known of a request before it is routed; it travels as an extension.
#[derive(Clone)]
pub struct CallContext {
    /// Who asks.
    pub caller: Caller,
    /// Its id.
    pub id: Arc<str>,
    /// What is remembered of it.
    pub log: RequestLog,
}

/// One HTTP request.
pub struct HttpCall {
    /// What all requests share.
    pub app: App,
    /// Whose words it is in.
    pub dialect: Dialect,
    /// Who asks.
    pub caller: Caller,
    /// Its id.
    pub id: Arc<str>,
    /// What is remembered of it.
    pub log: RequestLog,
    parts: Parts,
    parameters: HashMap<String, String>,
    body: Mutex<Option<axum::body::Body>>,
    share: Mutex<BodyShare>,
    /// Takes the pieces of its answer as they are, where the caller is inside the process.
    taker: Option<RunTaker>,
    /// A gateway is told how its answer goes on.
    attempt: Option<Arc<Attempt>>,
}

impl HttpCall {
    /// A part of the path by its name in the route.
    pub fn path(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }

    /// The first value of that name in the query.
    pub fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        let pairs = form_urlencoded::parse(self.parts.uri.query().unwrap_or("").as_bytes());
        pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Refuses what changes the server for all callers where this one is only one of them.
    ///
    /// # Errors
    /// Then.
    pub fn need_admin(&self) -> Result<(), ApiError> {
        match self.caller.admin {
            true => Ok(()),
            false => Err(ApiError::new(
                Cause::Forbidden,
                "this changes the server for all callers, which this key may not: start the server with --admin-key",
            )),
        }
    }

    /// Headers of the request.
    pub fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The body, which can be read once.
    fn take_body(&self) -> Option<axum::body::Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What its body holds of the memory for large bodies.
    fn share(&self) -> MutexGuard<'_, BodyShare> {
        self.share.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the body against a field table.
    ///
    /// # Errors
    /// When it is too large, no JSON, of another type, or has fields that are unknown or refused; when there is no room for
    /// what it was parsed to.
    pub async fn body(&self, table: &'static FieldTable) -> Result<Body, ApiError> {
        let (bytes, lenient) = (self.bytes().await?, self.app.options.lenient);
        let body = match bytes.len() > SMALL_BODY {
            true => {
                let parsed = pooled(move || {
                    let body = Body::parse(&bytes, table, lenient)?;
                    Ok((body.memory(), body))
                });
                let (memory, body) = parsed.await?;
                self.share().resize(memory)?;
                body
            }
            false => Body::parse(&bytes, table, lenient)?,
        };
        self.ignore(&body);
        Ok(body)
    }

    /// Reads an object inside a body against a table of its own.
    ///
    /// # Errors
    /// As for [`HttpCall::body`].
    pub fn nested(
        &self,
        body: &mut Body,
        name: &str,
        table: &'static FieldTable,
    ) -> Result<Option<Body>, ApiError> {
        let nested = body.nested(name, table, self.app.options.lenient)?;
        self.ignore(body);
        Ok(nested)
    }

    /// Names what a body has that makes no difference, in the log and in the response.
    pub fn ignore(&self, body: &Body) {
        self.name_ignored(body.ignored().iter().cloned());
    }

    /// A body has been read: fields that nobody has looked at make no difference, and are named.
    pub fn finish(&self, body: Body) {
        self.ignore(&body);
        self.name_ignored(body.unread());
    }

    /// Names fields that make no difference.
    pub fn name_ignored(&self, names: impl IntoIterator<Item = String>) {
        let mut entry = self.log.entry();
        for name in names {
            if !entry.ignored.contains(&name) {
                entry.ignored.push(name);
            }
        }
    }

    /// The model of that name, loaded if need be; it stays in memory while the lease lives.
    ///
    /// # Errors
    /// When there is no such model, or it cannot be loaded.
    pub async fn lease(&self, name: Option<&str>) -> Result<Lease, ApiError> {
        let begun = Instant::now();
        let lease = self.app.models.lease(name).await?;
        self.log.entry().load += begun.elapsed();
        self.log.entry().model = Some(lease.name().to_owned());
        Ok(lease)
    }

    /// The model that the body's field `model` names.
    ///
    /// # Errors
    /// As for [`HttpCall::lease`].
    pub async fn model(&self, body: &mut Body) -> Result<Lease, ApiError> {
        let name: Option<String> = body.take("model")?;
        self.lease(name.as_deref()).await
    }

    /// Reads the common fields: those of sampling, limits and adapters. A dialect takes the fields that mean something
    /// else in its words before.
    ///
    /// # Errors
    /// When one has a wrong type or value.
    pub fn options(&self, body: &mut Body, lease: &Lease) -> Result<Wishes, ApiError> {
        self.options_from(body, lease, self.app.options.sampling.clone())
    }

    /// As [`HttpCall::options`], with other sampling where the request does not say.
    ///
    /// # Errors
    /// As for [`HttpCall::options`].
    pub fn options_from(
        &self,
        body: &mut Body,
        lease: &Lease,
        sampling: SamplingParams,
    ) -> Result<Wishes, ApiError> {
        common::wishes(self, body, lease, sampling)
    }

    /// On what terms a request of this caller runs that does not say.
    pub fn terms(&self) -> Terms {
        common::usual_terms(self)
    }

    /// The prompt of a conversation.
    ///
    /// # Errors
    /// When the template refuses it, or a message is not what it should be.
    pub async fn chat(&self, lease: &Lease, turn: ChatTurn) -> Result<PromptTokens, ApiError> {
        chat::prompt(self, lease, turn, self.text_room(lease)).await
    }

    /// The text of a conversation.
    ///
    /// # Errors
    /// As for [`HttpCall::chat`].
    pub async fn rendered(&self, lease: &Lease, turn: ChatTurn) -> Result<String, ApiError> {
        let live = lease.live.clone();
        pooled(move || chat::rendered(&live, turn)).await
    }

    /// Tokens of a text that is to fit into the context.
    ///
    /// # Errors
    /// When it cannot fit, or the model has no tokenizer.
    pub async fn text(&self, lease: &Lease, text: String, special: Special) -> Result<Vec<u32>, ApiError> {
        self.text_room(lease).check(text.len())?;
        self.any_text(lease, text, special).await
    }

    /// Tokens of a text.
    ///
    /// # Errors
    /// When the model has no tokenizer.
    pub async fn any_text(
        &self,
        lease: &Lease,
        text: String,
        special: Special,
    ) -> Result<Vec<u32>, ApiError> {
        tokens::tokens(&lease.live.model, text, special).await
    }

    /// How long texts may be: as long as fits, unless contexts are shifted.
    fn text_room(&self, lease: &Lease) -> TextRoom {
        match self.app.options.context_shift {
            Some(_) => TextRoom::ENDLESS,
            None => lease.live.text_room,
        }
    }

    /// The job with what its answers must be, compiled on the pool. Fields that are enforced in part only are named.
    async fn constrained(&self, mut job: AnswerJob) -> Result<AnswerJob, ApiError> {
        let begun = Instant::now();
        let (job, parts) = pooled(move || job.constrain().map(|parts| (job, parts))).await?;
        self.log.entry().compile += begun.elapsed();
        self.log.entry().ignored.extend(parts);
        Ok(job)
    }

    /// Answers a job: as a stream, or whole.
    ///
    /// # Errors
    /// As for [`HttpCall::start`]; without a stream also what ended the request.
    pub async fn answer(
        &self,
        job: AnswerJob,
        stream: bool,
        mut renderer: impl Render,
    ) -> Result<Response, ApiError> {
        let tokens = self.app.metrics.tokens(job.lease.name());
        let (job, wish) = (self.constrained(job).await?, self.trace_wish()?);
        let url = wish.as_ref().map(trace::url);
        let recording = self.begin_trace(&job.lease.live, wish).await?;
        self.log.entry().answer = Some(renderer.id().to_owned()).filter(|id| !id.is_empty());
        let first = job.prompts.first().map_or(&[][..], |prompt| &prompt.tokens);
        let noted = self.app.traces.note(self.log.entry().number, first);
        let noted = noted.then(|| self.app.traces.clone());
        self.log.entry().asked = Some(asked(&job.wishes.generate));
        let (log, app) = (self.log.clone(), self.app.clone());
        let observer = CountedRequest { log, app, tokens, noted, _recording: recording };
        let run = self.start(job).await?;
        if let Some(taker) = &self.taker {
            taker.put(run);
            return Ok(Response::default());
        }
        if !stream {
            let answer = whole(run, observer).await?;
            let mut body = renderer.whole(&answer);
            trace::tell(&mut body, url.as_ref());
            return Ok(trace::head(json_response(&body), url.as_ref()));
        }
        self.log.entry().stream = true;
        let kind = renderer.content_type();
        let ping = self.app.options.sse_ping.0;
        let body = RenderedStream::new(run, Box::new(renderer), Box::new(observer), ping);
        let mut response = Response::new(axum::body::Body::new(body));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        Ok(trace::head(response, url.as_ref()))
    }
}

/// What spans tell of how an answer is to be.
fn asked(generate: &GenerateOptions) -> AskedParams {
    let (max_tokens, n, sampling) = (generate.max_tokens, generate.n, &generate.sampling);
    let (temperature, top_p) = (f64::from(sampling.temperature.value), f64::from(sampling.top_p.p));
    AskedParams { max_tokens, temperature, top_p, n }
}

/// A response of JSON.
pub fn json_response(value: &Value) -> Response {
    let mut response = Response::new(axum::body::Body::from(value.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
