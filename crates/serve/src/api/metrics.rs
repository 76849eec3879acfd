//! GET /metrics.

use crate::{
    app::App,
    call::{HttpCall, get},
    dialect::Dialect,
    error::{ApiError, Cause},
    metrics::MetricsFormat,
};
use axum::{Router, body::Body, response::Response};
use http::{HeaderValue, header};
use std::sync::atomic::Ordering;

/// The routes of this file.
pub fn routes() -> Router<App> {
    Router::new().route("/metrics", get(Dialect::Native, metrics))
}

async fn metrics(call: HttpCall) -> Result<Response, ApiError> {
    let app = &call.app;
    if app.options.no_metrics {
        return Err(ApiError::new(Cause::NoPath, "the server was started with --no-metrics"));
    }
    let format = MetricsFormat::of(call.headers());
    let text = app.metrics.text(&app.models.slots(), app.connections.load(Ordering::Relaxed));
    let mut response = Response::new(Body::from(format.written(text)));
    let kind = HeaderValue::from_static(format.content_type());
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}
