//! The models, in a body that OpenAI's and Anthropic's clients read.

use crate::{
    api::shared::modalities,
    call::{HttpCall, json_response},
    error::ApiError,
    models::{ModelSlot, Phase, rfc3339},
};
use axum::response::Response;
use serde_json::{Value, json};

/// What the model inside the package is, for those who meet it first.
const PACKAGED: &str = "This is the small model inside the package, trained on stories for children: it shows that all \
    works, and tells stories. Start the server with a model of your own for anything else.";

/// GET /v1/models.
pub async fn models(call: HttpCall) -> Result<Response, ApiError> {
    let data: Vec<Value> = call.app.models.listed().iter().flat_map(|slot| items(slot)).collect();
    let id = |item: Option<&Value>| item.map_or(Value::Null, |i| i["id"].clone());
    Ok(json_response(&json!({
        "object": "list",
        "first_id": id(data.first()),
        "last_id": id(data.last()),
        "has_more": false,
        "data": data,
    })))
}

/// GET /v1/models/{id}.
pub async fn model(call: HttpCall) -> Result<Response, ApiError> {
    let id = call.path("id");
    let slot = call.app.models.slot(Some(id))?;
    let item = items(&slot).find(|item| item["id"] == id);
    Ok(json_response(&item.unwrap_or_else(|| describe(&slot, &slot.name))))
}

/// A model under its name, and under those of its adapters.
fn items(slot: &ModelSlot) -> impl Iterator<Item = Value> {
    std::iter::once(slot.name.as_str()).chain(slot.adapters()).map(|name| describe(slot, name))
}

fn describe(slot: &ModelSlot, id: &str) -> Value {
    let meta = slot.live().map(|live| {
        let info = live.model.info();
        json!({
            "n_ctx": info.context,
            "n_ctx_train": info.model_context,
            "n_vocab": info.vocab,
            "n_embd": info.hidden,
            "n_params": info.params,
            "size": info.bytes,
            "type_name": info.type_name,
            "modalities": modalities(Some(&live)),
        })
    });
    let phase = slot.phase();
    let progress = if let Phase::Loading { done } = phase { Some(done) } else { None };
    json!({
        "id": id,
        "object": "model",
        "type": "model",
        "created": slot.created,
        "created_at": rfc3339(slot.created),
        "owned_by": "lamina",
        "display_name": id,
        "lifecycle": "active",
        "aliases": slot.aliases,
        "loras": slot.adapters().collect::<Vec<_>>(),
        "meta": meta,
        "about": slot.is_packaged().then_some(PACKAGED),
        "status": { "value": phase.name(), "progress": progress },
    })
}
