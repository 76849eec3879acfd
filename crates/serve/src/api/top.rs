//! `GET /top`: a page of what the server does now; `GET /top/events`: its samples.

use super::root::page_response;
use crate::{
    app::App,
    call::{HttpCall, delete, get, json_response},
    dialect::Dialect::Native,
    error::{ApiError, Cause},
    page, top,
};
use axum::{Router, body::Body, response::Response};
use http::{HeaderValue, header};
use serde_json::json;

/// The routes of this file.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/top", get(Native, shown))
        .route("/top/events", get(Native, events))
        .route("/debug/requests/{id}", delete(Native, stop))
}

async fn shown(call: HttpCall) -> Result<Response, ApiError> {
    need_page(&call)?;
    Ok(page_response(page::top()))
}

async fn events(call: HttpCall) -> Result<Response, ApiError> {
    need_page(&call)?;
    let mut response = Response::new(Body::new(top::follow(&call.app)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// DELETE /debug/requests/{id}: ends the answers of a request that runs. With keys, one without the right to change the
/// server ends its own.
async fn stop(call: HttpCall) -> Result<Response, ApiError> {
    let (id, caller) = (call.path("id"), &call.caller);
    let stopped = call.app.open.stop(|entry| *entry.id == *id && (caller.admin || entry.key == caller.key));
    match stopped {
        true => Ok(json_response(&json!({ "success": true }))),
        false => Err(ApiError::new(Cause::NoPath, "no request with this id runs")),
    }
}

fn need_page(call: &HttpCall) -> Result<(), ApiError> {
    match call.app.options.no_page {
        true => Err(ApiError::new(Cause::NoPath, "this server has no web pages")),
        false => Ok(()),
    }
}
