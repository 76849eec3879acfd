//! Handlers as routes.

use super::{CallContext, HttpCall};
use crate::{app::App, dialect::Dialect, error::ApiError};
use axum::{
    extract::{FromRequestParts, RawPathParams, Request, State},
    response::Response,
    routing::{MethodFilter, MethodRouter, on},
};
use http::{HeaderValue, header};
use std::{future::Future, sync::Mutex};

/// A handler of POST.
pub fn post<F, R>(dialect: Dialect, handler: F) -> MethodRouter<App>
where
    F: Fn(HttpCall) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<Response, ApiError>> + Send + 'static,
{
    method(MethodFilter::POST, dialect, handler)
}

/// A handler of GET, and so of HEAD.
pub fn get<F, R>(dialect: Dialect, handler: F) -> MethodRouter<App>
where
    F: Fn(HttpCall) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<Response, ApiError>> + Send + 'static,
{
    method(MethodFilter::GET, dialect, handler)
}

/// A handler of DELETE.
pub fn delete<F, R>(dialect: Dialect, handler: F) -> MethodRouter<App>
where
    F: Fn(HttpCall) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<Response, ApiError>> + Send + 'static,
{
    method(MethodFilter::DELETE, dialect, handler)
}

fn method<F, R>(filter: MethodFilter, dialect: Dialect, handler: F) -> MethodRouter<App>
where
    F: Fn(HttpCall) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<Response, ApiError>> + Send + 'static,
{
    on(filter, move |State(app): State<App>, request: Request| {
        let handler = handler.clone();
        async move {
            let id = request.extensions().get::<CallContext>().map(|c| c.id.clone()).unwrap_or_default();
            let done = match HttpCall::of(app, dialect, request).await {
                Ok(call) => handler(call).await,
                Err(e) => Err(e),
            };
            done.unwrap_or_else(|error| refusal(&error, dialect, &id))
        }
    })
}

/// The response that tells a refusal.
pub fn refusal(error: &ApiError, dialect: Dialect, id: &str) -> Response {
    let mut response = super::json_response(&error.body(dialect, id));
    *response.status_mut() = error.status(dialect);
    let unauthorized = response.status() == http::StatusCode::UNAUTHORIZED;
    // For callers inside the process.
    response.extensions_mut().insert(error.clone());
    let headers = response.headers_mut();
    if let Some(retry) = error.retry {
        // Clients understand one or the other.
        headers.insert(header::RETRY_AFTER, HeaderValue::from(retry.as_secs().max(1)));
        headers.insert("retry-after-ms", HeaderValue::from(retry.as_millis() as u64));
    }
    if unauthorized {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

impl HttpCall {
    /// A request with its context.
    ///
    /// # Errors
    /// When it has none.
    pub async fn of(app: App, dialect: Dialect, request: Request) -> Result<HttpCall, ApiError> {
        let (mut parts, body) = request.into_parts();
        let missing = || ApiError::fault("a request without its context");
        let CallContext { caller, id, log } = parts.extensions.remove::<CallContext>().ok_or_else(missing)?;
        let (taker, attempt) = (parts.extensions.remove(), parts.extensions.remove());
        let raw = RawPathParams::from_request_parts(&mut parts, &()).await;
        let parameters = raw.iter().flatten().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        log.entry().dialect = dialect;
        let (body, share) = (Mutex::new(Some(body)), Mutex::new(app.bodies.share()));
        Ok(HttpCall { app, dialect, caller, id, log, parts, parameters, body, share, taker, attempt })
    }
}
