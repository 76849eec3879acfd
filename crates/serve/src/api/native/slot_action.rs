//! POST /slots/{id}?action=save|restore|erase: what was computed of a slot's text, as a file and back.

use crate::{
    body::{Body, FieldTable, taken},
    call::{HttpCall, json_response, pooled},
    error::ApiError,
    models::{Lease, SlotText},
};
use axum::response::Response;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::Instant,
};

/// Fields of the body.
pub const SLOT_ACTION: FieldTable = FieldTable {
    name: "POST /slots/{id}",
    sampling: false,
    fields: &[
        taken("filename", "name of the file, without folders"),
        taken("model", "name of the model or of an adapter"),
    ],
    also: &[],
};

/// Bytes of a file's name at most, as most file systems have it.
const LONGEST_NAME: usize = 255;

/// The handler.
pub async fn act(call: HttpCall) -> Result<Response, ApiError> {
    call.need_admin()?;
    let folder = folder(&call)?;
    let id = slot(&call)?;
    let action = call.query("action").unwrap_or_default().into_owned();
    let mut body = call.body(&SLOT_ACTION).await?;
    let lease = call.model(&mut body).await?;
    let answer = match action.as_str() {
        "save" => save(lease, id, file(&mut body, &folder)?).await?,
        "restore" => restore(lease, id, file(&mut body, &folder)?).await?,
        "erase" => json!({ "id_slot": id, "n_erased": lease.live.slots.put(id, vec![], None).tokens.len() }),
        _ => return Err(ApiError::at("action", "action must be save, restore or erase")),
    };
    call.finish(body);
    Ok(json_response(&answer))
}

/// Where files lie. Callers who must not see each other's beginnings cannot share them through files either.
fn folder(call: &HttpCall) -> Result<PathBuf, ApiError> {
    let options = &call.app.options;
    let folder = options.slot_save_path.clone().filter(|_| !options.no_slots);
    let folder = folder.ok_or_else(|| {
        ApiError::unsupported("texts of slots are kept when the server is started with --slot-save-path DIR")
    })?;
    if options.isolate_tenants {
        let text = "the server was started with --isolate-tenants: texts are not shared through slots";
        return Err(ApiError::unsupported(text));
    }
    Ok(folder)
}

fn slot(call: &HttpCall) -> Result<usize, ApiError> {
    let most = call.app.options.max_running;
    let id = call.path("id").parse().ok().filter(|id| *id < most);
    id.ok_or_else(|| ApiError::at("id", format!("slots have numbers from 0 to {}", most.saturating_sub(1))))
}

/// The file of that name in the folder: never another place.
fn file(body: &mut Body, folder: &Path) -> Result<(String, PathBuf), ApiError> {
    let name: Option<String> = body.take("filename")?;
    let plain = |c: char| c.is_alphanumeric() || "-_. ".contains(c);
    let fits = |n: &String| {
        !n.is_empty() && n.len() <= LONGEST_NAME && !n.starts_with(['.', ' ']) && n.chars().all(plain)
    };
    let name = name.filter(fits).ok_or_else(|| {
        let text = "filename must have from 1 to 255 bytes of letters, digits, `-`, `_`, `.` and blanks, \
                    and begin with none of the last two";
        ApiError::at("filename", text)
    })?;
    let path = folder.join(&name);
    Ok((name, path))
}

async fn save(lease: Lease, id: usize, (name, path): (String, PathBuf)) -> Result<Value, ApiError> {
    let SlotText { tokens, lora, .. } = lease.live.slots.text(id).unwrap_or_default();
    if tokens.is_empty() {
        return Err(ApiError::at("id", format!("slot {id} holds no text: no request has used it")));
    }
    pooled(move || {
        let begun = Instant::now();
        let written = lease.model(lora.as_deref())?.save_session(&path, &tokens, &Value::Null);
        let written = written.map_err(|e| nameless(e, &path, &name))?;
        let ms = begun.elapsed().as_secs_f64() * 1e3;
        Ok(json!({
            "id_slot": id, "filename": name, "n_saved": tokens.len(), "n_written": written,
            "timings": { "save_ms": ms },
        }))
    })
    .await
}

async fn restore(lease: Lease, id: usize, (name, path): (String, PathBuf)) -> Result<Value, ApiError> {
    pooled(move || {
        let begun = Instant::now();
        let saved = lease.model(None)?.load_session(&path).map_err(|e| nameless(e, &path, &name))?;
        let read = std::fs::metadata(&path).map_or(0, |m| m.len());
        let restored = saved.cached_tokens;
        lease.live.slots.put(id, saved.tokens, None);
        let ms = begun.elapsed().as_secs_f64() * 1e3;
        Ok(json!({
            "id_slot": id, "filename": name, "n_restored": restored, "n_read": read,
            "timings": { "restore_ms": ms },
        }))
    })
    .await
}

/// The error with the file's name instead of its path, which is nobody's business.
fn nameless(error: lamina::Error, path: &Path, name: &str) -> ApiError {
    let text = error.to_string().replace(&path.display().to_string(), name);
    ApiError::at("filename", text)
}
