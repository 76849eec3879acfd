//! Which models there are, which are in memory, and what is known of one.

use super::{
    fields::SHOW,
    words::{details, listed},
};
use crate::{
    call::{HttpCall, json_response},
    error::ApiError,
    models::{LiveModel, ModelSlot, now, rfc3339},
};
use axum::response::Response;
use serde_json::{Map, Value, json};
use std::time::Instant;

/// When a model goes that never goes.
const NEVER: &str = "9999-12-31T23:59:59Z";

/// GET /api/tags.
pub async fn tags(call: HttpCall) -> Result<Response, ApiError> {
    let models: Vec<_> = call.app.models.slots().iter().map(|slot| listed(slot)).collect();
    Ok(json_response(&json!({"models": models})))
}

/// GET /api/ps.
pub async fn ps(call: HttpCall) -> Result<Response, ApiError> {
    let models: Vec<_> = call.app.models.slots().iter().filter_map(|slot| loaded(slot)).collect();
    Ok(json_response(&json!({"models": models})))
}

fn loaded(slot: &ModelSlot) -> Option<Map<String, Value>> {
    let live = slot.live()?;
    let mut object = listed(slot);
    object.insert("expires_at".to_owned(), json!(expires_at(slot)));
    object.insert("size_vram".to_owned(), json!(0));
    object.insert("context_length".to_owned(), json!(live.model.info().context));
    Some(object)
}

fn expires_at(slot: &ModelSlot) -> String {
    let left = slot.expires().map(|at| at.saturating_duration_since(Instant::now()));
    left.map_or_else(|| NEVER.to_owned(), |left| rfc3339(now() + left.as_secs()))
}

/// GET /api/version.
pub async fn version(_: HttpCall) -> Result<Response, ApiError> {
    Ok(json_response(&json!({"version": env!("CARGO_PKG_VERSION")})))
}

/// POST /api/show. It loads nothing: clients ask it for every model that there is.
pub async fn show(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&SHOW).await?;
    let older: Option<String> = body.take("name")?;
    let name = body.take("model")?.or(older);
    let slot = call.app.models.slot(name.as_deref())?;
    let live = slot.live();
    let live = live.as_deref();
    Ok(json_response(&json!({
        "modelfile": "",
        "parameters": "",
        "template": live.map_or_else(String::new, |l| l.template()),
        "details": details(live),
        "model_info": model_info(&slot),
        "capabilities": capabilities(live),
        "modified_at": rfc3339(slot.created),
    })))
}

/// What the model does beside completing text.
fn capabilities(live: Option<&LiveModel>) -> Vec<&'static str> {
    let tools = live.is_some_and(|l| l.template().contains("tools"));
    let more = tools.then_some("tools");
    ["completion"].into_iter().chain(more).collect()
}

/// Sizes under the names that GGUF has for them.
fn model_info(slot: &ModelSlot) -> Value {
    let Some(live) = slot.live() else { return json!({"general.basename": slot.name}) };
    let info = live.model.info();
    let mut object = json!({
        "general.architecture": info.architecture,
        "general.basename": slot.name,
        "general.parameter_count": info.params,
    });
    let sizes = [
        ("context_length", info.model_context),
        ("embedding_length", info.hidden),
        ("block_count", info.layers),
        ("vocab_size", info.vocab),
    ];
    for (name, size) in sizes {
        object[format!("{}.{name}", info.architecture)] = json!(size);
    }
    object
}
