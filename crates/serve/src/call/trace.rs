//! Requests that leave a trace behind.

use super::{HttpCall, pool::pooled};
use crate::{
    debug::{TraceRecording, TraceWish},
    error::ApiError,
    models::LiveModel,
    run::ids,
};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Value, json};
use std::sync::Arc;

/// The header by which a request asks for a recording of itself.
const ASKS: &str = "x-lamina-trace";
/// The header that says where it will be.
const TOLD: &str = "x-lamina-trace-url";

impl HttpCall {
    /// Refuses what shows texts of others, unless the server was started for it and this caller may see all.
    ///
    /// # Errors
    /// Then.
    pub fn need_traces(&self) -> Result<(), ApiError> {
        if !self.app.options.debug_trace {
            return Err(ApiError::unsupported("the server was started without --debug-trace"));
        }
        self.need_admin()
    }

    /// The recording that the request's header asks for.
    ///
    /// # Errors
    /// When the server makes none for this caller, or the header names no detail.
    pub(super) fn trace_wish(&self) -> Result<Option<TraceWish>, ApiError> {
        let Some(asked) = self.headers().get(ASKS) else { return Ok(None) };
        self.need_traces()?;
        let wrong = |e: String| ApiError::at(ASKS, format!("{ASKS}: {e}"));
        let detail = asked.to_str().unwrap_or_default().parse().map_err(wrong)?;
        let tenant = self.caller.tenant.clone();
        Ok(Some(TraceWish { detail, id: ids::fresh("trace-"), tenant }))
    }

    /// Begins the recording that was asked for.
    pub(super) async fn begin_trace(
        &self,
        live: &Arc<LiveModel>,
        wish: Option<TraceWish>,
    ) -> Result<Option<TraceRecording>, ApiError> {
        let Some(wish) = wish else { return Ok(None) };
        let (desk, live, number) = (self.app.traces.clone(), live.clone(), self.log.entry().number);
        pooled(move || desk.begin(live, wish.detail, Some((number, wish)))).await.map(Some)
    }

    /// True for what browsers send when somebody opens an address.
    pub fn wants_page(&self) -> bool {
        wants_page(self.headers())
    }
}

/// Where a trace will be.
pub(super) fn url(wish: &TraceWish) -> String {
    format!("/debug/trace/{}", wish.id)
}

/// Says in an answer where its trace will be.
pub(super) fn tell(answer: &mut Value, url: Option<&String>) {
    if let (Value::Object(fields), Some(url)) = (answer, url) {
        fields.insert("trace_url".into(), json!(url));
    }
}

/// Says at the head of an answer where its trace will be.
pub(super) fn head(mut response: Response, url: Option<&String>) -> Response {
    if let Some(url) = url.and_then(|url| HeaderValue::from_str(url).ok()) {
        response.headers_mut().insert(TOLD, url);
    }
    response
}

fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accept.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("text/html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_told_from_clients() {
        let wants = |accept: &'static str| {
            wants_page(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]))
        };
        assert!(wants("text/html,application/xhtml+xml,*/*;q=0.8") && wants("a/b, text/html;q=0.1"));
        assert!(!wants("*/*") && !wants("application/json") && !wants_page(&HeaderMap::new()));
    }
}
