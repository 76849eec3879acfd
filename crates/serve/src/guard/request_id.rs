//! Ids of requests.

use crate::run::ids;
use http::HeaderMap;
use std::sync::Arc;

/// The client's own id, if it is short and visible; else a fresh one.
pub fn request_id(headers: &HeaderMap) -> Arc<str> {
    let own = headers.get("x-request-id").and_then(|v| v.to_str().ok());
    let fits = |id: &&str| (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    own.filter(fits).map_or_else(|| ids::fresh("req_").into(), Arc::from)
}
