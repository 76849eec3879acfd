//! Which models there are, which are in memory, and what is known of one.

use super::{
    fields::SHOW,
    words::{details, listed},
};
use crate::{
    call::{HttpCall, json_response, pooled},
    error::ApiError,
    models::{ModelFacts, ModelSlot, VisionFacts, now, rfc3339},
};
use axum::response::Response;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// When to ask again for a model whose files cannot be read.
const AGAIN: Duration = Duration::from_secs(10);

/// When a model goes that never goes.
const NEVER: &str = "9999-12-31T23:59:59Z";

/// A version of Ollama whose API this is: its clients refuse servers that are older than what they ask for. This one
/// brought logprobs, the youngest of the fields that are answered here.
const OLLAMA: &str = "0.12.11";

/// GET /api/tags.
pub async fn tags(call: HttpCall) -> Result<Response, ApiError> {
    let models = call.app.models.clone();
    let tags = move || Ok(models.listed().iter().map(|slot| listed(slot)).collect::<Vec<_>>());
    Ok(json_response(&json!({"models": pooled(tags).await?})))
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
    Ok(json_response(&json!({"version": OLLAMA})))
}

/// POST /api/show. It loads nothing: clients ask it for every model that there is.
pub async fn show(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&SHOW).await?;
    let older: Option<String> = body.take("name")?;
    let name = body.take("model")?.or(older);
    call.finish(body);
    let slot = call.app.models.slot(name.as_deref())?;
    let told = pooled(move || {
        let facts =
            slot.facts().map_err(|e| ApiError::unavailable(slot.without_paths(&e.to_string()), AGAIN))?;
        let mut told = json!({
            "modelfile": "",
            "parameters": "",
            "template": facts.template,
            "details": details(Some(&facts)),
            "model_info": model_info(&slot.name, &facts),
            "capabilities": facts.capabilities(),
            "modified_at": rfc3339(slot.created),
        });
        if let Some(vision) = &facts.vision {
            told["projector_info"] = projector_info(vision);
        }
        Ok(told)
    });
    Ok(json_response(&told.await?))
}

/// The encoder of pictures under the names that GGUF has for it.
fn projector_info(vision: &VisionFacts) -> Value {
    json!({
        "general.architecture": "clip",
        "clip.has_vision_encoder": true,
        "clip.vision.block_count": vision.layers,
        "clip.vision.embedding_length": vision.hidden,
        "clip.vision.projection_dim": vision.projected,
        "clip.vision.patch_size": vision.patch,
    })
}

/// Sizes under the names that GGUF has for them.
fn model_info(name: &str, facts: &ModelFacts) -> Value {
    let mut object = json!({
        "general.architecture": facts.architecture,
        "general.basename": name,
        "general.parameter_count": facts.params,
    });
    let sizes = [
        ("context_length", facts.context),
        ("embedding_length", facts.hidden),
        ("block_count", facts.layers),
        ("vocab_size", facts.vocab),
    ];
    for (name, size) in sizes {
        object[format!("{}.{name}", facts.architecture)] = json!(size);
    }
    object
}
