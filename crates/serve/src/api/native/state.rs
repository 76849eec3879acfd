//! What a server and its models are, and what they do now. Neither loads a model nor waits for a step.

use super::settings;
use crate::{
    api::shared::modalities,
    call::{HttpCall, json_response},
    error::{ApiError, Cause},
};
use axum::response::Response;
use lamina::sound::SoundReader;
use serde_json::{Value, json};
use std::time::Duration;

/// GET /props.
pub async fn props(call: HttpCall) -> Result<Response, ApiError> {
    let slot = call.app.models.slot(call.query("model").as_deref())?;
    let options = &call.app.options;
    let live = slot.live();
    let context = live.as_ref().map(|l| l.model.info().context);
    let text = |id: Option<u32>| {
        let tokenizer = live.as_ref()?.model.tokenizer()?;
        id.and_then(|id| tokenizer.id_to_token(id)).map(str::to_owned)
    };
    let ids = live.as_ref().and_then(|l| Some(l.model.tokenizer()?.special_ids()));
    Ok(json_response(&json!({
        "default_generation_settings": { "params": settings::sampling(&options.sampling), "n_ctx": context },
        "parameters": settings::described(),
        "total_slots": options.max_running,
        "model": slot.name,
        // Paths of this machine are nobody's business.
        "model_path": slot.name,
        "model_alias": slot.aliases.first().unwrap_or(&slot.name),
        "chat_template": live.as_ref().map(|l| l.template()),
        "bos_token": text(ids.and_then(|i| i.bos)),
        "eos_token": text(ids.and_then(|i| i.eos)),
        "modalities": modalities(live.as_deref()),
        // Whoever shrinks pictures before they are sent goes by these.
        "image_limits": live.as_ref().and_then(|l| l.model.image_limits()).map(|limits| json!({
            "bytes": limits.each.bytes, "pixels": limits.each.pixels, "side": limits.each.side, "count": limits.count,
        })),
        "audio_limits": live.as_ref().and_then(|l| l.model.hearing()).map(|_| {
            let limits = SoundReader::default().limits();
            // A body has four bytes for three of a sound, and something around it.
            let sent = (call.app.options.max_body / 4 * 3).saturating_sub(64 << 10);
            json!({ "bytes": sent.min(limits.bytes as u64), "seconds": limits.seconds })
        }),
        "build_info": format!("lamina {}", env!("CARGO_PKG_VERSION")),
        "is_sleeping": live.is_none(),
        "state": slot.phase().name(),
    })))
}

/// GET /slots: one entry for each sequence that may run at once. Never text.
pub async fn slots(call: HttpCall) -> Result<Response, ApiError> {
    let options = &call.app.options;
    if options.no_slots {
        return Err(ApiError::unsupported("the server was started with --no-slots"));
    }
    let slot = call.app.models.slot(call.query("model").as_deref())?;
    let live = slot.live();
    let context = live.as_ref().map_or(0, |l| l.model.info().context);
    let snapshot = live.map(|l| l.model.snapshot());
    let running = snapshot.as_ref().map_or(&[][..], |s| &s.running);
    let busy = running.iter().filter(|s| !s.paused).count();
    if busy >= options.max_running && call.query("fail_on_no_slot").as_deref() == Some("1") {
        let retry = Some(Duration::from_secs(1));
        return Err(ApiError { retry, ..ApiError::new(Cause::Unavailable, "no slot is free") });
    }
    let entry = |id: usize| match running.get(id) {
        Some(s) => json!({
            "id": id, "is_processing": true, "id_task": s.id, "n_ctx": context,
            "n_prompt_tokens": s.prompt_tokens, "n_decoded": s.tokens, "n_computed": s.computed,
            "priority": s.priority, "paused": s.paused,
        }),
        None => json!({
            "id": id, "is_processing": false, "id_task": -1, "n_ctx": context,
            "n_prompt_tokens": 0, "n_decoded": 0, "n_computed": 0, "priority": 0, "paused": false,
        }),
    };
    let entries: Value = (0..options.max_running.max(running.len())).map(entry).collect();
    Ok(json_response(&entries))
}
