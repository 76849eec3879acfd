//! Whether the server lives, and whether it takes requests. Neither loads a model nor waits for a step.

use crate::{
    app::App,
    call::{HttpCall, get, json_response},
    dialect::Dialect,
    error::ApiError,
    models::Phase,
};
use axum::{Router, response::Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

/// The routes of this file.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/health", get(Dialect::Native, health))
        .route("/v1/health", get(Dialect::Native, health))
        .route("/ready", get(Dialect::Native, ready))
        .route("/version", get(Dialect::Native, version))
}

async fn health(call: HttpCall) -> Result<Response, ApiError> {
    Ok(match trouble(&call.app) {
        Some(message) => unavailable(&message),
        None => json_response(&json!({ "status": "ok" })),
    })
}

async fn ready(call: HttpCall) -> Result<Response, ApiError> {
    let draining = call.app.is_draining().then(|| "the server is about to end".to_owned());
    Ok(match draining.or_else(|| trouble(&call.app)) {
        Some(message) => unavailable(&message),
        None => json_response(&json!({ "status": "ok" })),
    })
}

async fn version(_: HttpCall) -> Result<Response, ApiError> {
    Ok(json_response(&json!({ "version": env!("CARGO_PKG_VERSION") })))
}

/// What keeps the server from answering.
fn trouble(app: &App) -> Option<String> {
    let slots = app.models.slots();
    let stalled =
        |s: &crate::models::ModelSlot| s.live().is_some_and(|l| l.stalled(app.options.stall_timeout.0));
    if slots.iter().any(|s| stalled(s)) {
        return Some("stalled".into());
    }
    let loading = |phase: &Phase| matches!(phase, Phase::Loading { .. });
    // One model that could be loaded is enough: requests wait for others, and for one that they load again.
    let any_loaded = slots.iter().any(|s| s.was_loaded());
    match slots.iter().map(|s| s.phase()).find(loading) {
        Some(_) if !any_loaded => Some("Loading model".into()),
        _ => slots.iter().find_map(|s| match s.phase() {
            Phase::Failed(_) if slots.len() == 1 => Some("the model cannot be loaded".into()),
            _ => None,
        }),
    }
}

/// llama-server's body.
fn unavailable(message: &str) -> Response {
    let body: Value = json!({ "error": { "code": 503, "message": message, "type": "unavailable_error" } });
    let mut response = json_response(&body);
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
