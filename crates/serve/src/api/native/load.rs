//! Loading and unloading models by name.

use crate::{
    body::{FieldTable, taken},
    call::{HttpCall, json_response},
    error::{ApiError, Cause},
};
use axum::response::Response;
use serde_json::json;

/// Fields of POST /models/load and /models/unload.
pub const MODEL: FieldTable = FieldTable {
    name: "POST /models/load",
    sampling: false,
    fields: &[
        taken("model", "name of the model"),
        taken("force", "unload: requests that run are not waited for"),
    ],
    also: &[],
};

/// POST /models/load. A model of the hub is fetched first, where that is allowed.
pub async fn load(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&MODEL).await?;
    let name: Option<String> = body.take("model")?;
    call.finish(body);
    let found = call.app.models.slot(name.as_deref());
    if let (Err(Cause::NoModel), Some(name)) = (found.map_err(|e| e.cause), &name)
        && call.app.options.allow_pull
    {
        call.need_admin()?;
        call.app.models.pull(name)?.finished().await?;
        call.app.models.admit(name);
    }
    call.lease(name.as_deref()).await?;
    Ok(json_response(&json!({ "success": true })))
}

/// POST /models/unload.
pub async fn unload(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&MODEL).await?;
    let slot = call.app.models.slot(body.take::<String>("model")?.as_deref())?;
    let force = body.take("force")?.unwrap_or(false);
    call.finish(body);
    if force {
        call.need_admin()?;
    }
    if slot.is_given() {
        return Err(ApiError::unsupported("this model belongs to the program that started the server"));
    }
    if force && let Some(live) = slot.live() {
        // Its requests end with an error.
        crate::call::pooled(move || {
            live.model.close();
            Ok(())
        })
        .await?;
    }
    call.app.models.unload(&slot).await;
    Ok(json_response(&json!({ "success": true })))
}
