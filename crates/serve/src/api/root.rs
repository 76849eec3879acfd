//! `GET /`: the web page for browsers, a line for all others, who ask whether the server lives.

use crate::{
    app::App,
    call::{HttpCall, get},
    dialect::Dialect,
    error::{ApiError, Cause},
    page::{self, WebPage},
};
use axum::{Router, body::Body, response::Response};
use http::{HeaderValue, header};

/// The routes of this file.
pub fn routes() -> Router<App> {
    Router::new().route("/", get(Dialect::Native, root))
}

async fn root(call: HttpCall) -> Result<Response, ApiError> {
    match (call.wants_page(), call.app.options.no_page) {
        (true, true) => Err(ApiError::new(Cause::NoPath, "this server has no web page")),
        (true, false) => Ok(page_response(page::embedded())),
        (false, _) => Ok(response("text/plain; charset=utf-8", "Lamina is running\n")),
    }
}

/// A page with the headers that guard it.
pub fn page_response(page: &'static WebPage) -> Response {
    let mut response = response("text/html; charset=utf-8", page.html.as_str());
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(&page.policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // The next version of the program has another page.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn response(kind: &'static str, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
