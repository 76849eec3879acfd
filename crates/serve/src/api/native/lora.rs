//! Adapters and their usual scales.

use crate::{
    body::{json_of, typed},
    call::{HttpCall, json_response},
    error::ApiError,
    models::Lease,
};
use axum::response::Response;
use lamina::AdapterPath;
use serde::Deserialize;
use serde_json::{Value, json};

/// GET /lora-adapters.
pub async fn list(call: HttpCall) -> Result<Response, ApiError> {
    let slot = call.app.models.slot(call.query("model").as_deref())?;
    let scales = slot.live().map(|live| live.scales()).unwrap_or_default();
    let scale = |name: &str| scales.iter().find(|(n, _)| n == name).map_or(0.0, |(_, s)| *s);
    // A path of this machine is nobody's business: its last part tells adapters apart.
    let entry = |(id, lora): (usize, &AdapterPath)| {
        let file = lora.path.file_name().map(|f| f.to_string_lossy().into_owned());
        json!({ "id": id, "name": lora.called(), "path": file, "scale": scale(lora.called()) })
    };
    Ok(json_response(&slot.settings.lora.iter().enumerate().map(entry).collect()))
}

#[derive(Deserialize)]
struct AdapterScale {
    id: usize,
    scale: f32,
}

/// POST /lora-adapters: the scales of requests that name no adapter.
pub async fn set(call: HttpCall) -> Result<Response, ApiError> {
    call.need_admin()?;
    let lease = call.lease(call.query("model").as_deref()).await?;
    let bytes = call.bytes().await?;
    let value: Value = json_of(&bytes, "the body")
        .map_err(|_| ApiError::invalid("the body must be a list of {id, scale}"))?;
    let given: Vec<AdapterScale> = typed(value, "body")?;
    let scales = given.iter().enumerate().map(|(i, one)| named(&lease, i, one));
    lease.live.set_scales(&scales.collect::<Result<Vec<_>, _>>()?);
    Ok(json_response(&json!({ "success": true })))
}

fn named(lease: &Lease, i: usize, one: &AdapterScale) -> Result<(String, f32), ApiError> {
    let adapters = &lease.slot().settings.lora;
    let known = adapters.get(one.id).filter(|_| one.scale.is_finite()).ok_or_else(|| {
        let text = format!("[{i}]: id must be below {}, and scale a number", adapters.len());
        ApiError::at(format!("[{i}].id"), text)
    })?;
    Ok((known.called().to_owned(), one.scale))
}
