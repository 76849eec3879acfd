//! Fields that all dialects have: sampling, limits, adapters.

use super::{HttpCall, form::forms};
use crate::{
    body::{Body, kind, sampling_value, texts},
    error::ApiError,
    models::Lease,
    options::{KeepAlive, Span},
    run::{Wishes, arrival, ids},
};
use lamina::{
    EngineError, GenerateOptions, Terms,
    sample::{SamplingParams, params},
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// Reads the common fields.
pub(super) fn wishes(
    call: &HttpCall,
    body: &mut Body,
    lease: &Lease,
    defaults: SamplingParams,
) -> Result<Wishes, ApiError> {
    let options = &call.app.options;
    let generate =
        GenerateOptions { max_tokens: options.max_tokens, sampling: defaults, ..GenerateOptions::default() };
    let mut wishes = Wishes { generate, ..Wishes::default() };
    sampling(body, &mut wishes.generate.sampling)?;
    limits(body, &mut wishes.generate)?;
    terms(call, body, &mut wishes.generate)?;
    if let Some(lora) = body.value("lora") {
        wishes.lora = Some(adapters(lora, &body.path("lora"), lease)?);
    }
    wishes.token_ids = body.take("return_token_ids")?.unwrap_or(false);
    wishes.slot = slot(call, body)?;
    wishes.generate.context_shift = kept(call, body, lease)?;
    forms(body, &mut wishes)?;
    if let Some(alive) = body.value("keep_alive") {
        lease.keep_alive(keep_alive(&alive, &body.path("keep_alive"))?);
    }
    Ok(wishes)
}

/// Every sampling parameter by its name and its aliases.
fn sampling(body: &mut Body, sampling: &mut SamplingParams) -> Result<(), ApiError> {
    for param in params() {
        let mut given: Option<&str> = None;
        for &name in std::iter::once(&param.name).chain(param.aliases) {
            let Some(value) = body.value(name) else { continue };
            let path = body.path(name);
            if let Some(other) = given.replace(name) {
                return Err(ApiError::at(
                    &path,
                    format!("{path} and {other} are the same: give one of them"),
                ));
            }
            let value = sampling_value(param, &value, &path)?;
            sampling.set(param.name, value).map_err(|e| ApiError::at(&path, e.to_string()))?;
        }
    }
    Ok(())
}

fn limits(body: &mut Body, generate: &mut GenerateOptions) -> Result<(), ApiError> {
    if let Some(stop) = body.value("stop") {
        generate.stop = texts(stop, &body.path("stop"))?;
    }
    generate.n = body.take("n")?.unwrap_or(1);
    generate.ignore_eos = body.take("ignore_eos")?.unwrap_or(false);
    generate.stop_tokens = body.take("stop_token_ids")?.unwrap_or_default();
    generate.include_stop = body.take("include_stop_str_in_output")?.unwrap_or(false);
    generate.min_tokens = body.take("min_tokens")?.unwrap_or(0);
    if let Some(text) = body.take::<String>("compress")? {
        let path = body.path("compress");
        generate.compress = Some(text.parse().map_err(|e: EngineError| ApiError::at(&path, e.to_string()))?);
    }
    if body.take::<bool>("skip_special_tokens")? == Some(false) {
        let path = body.path("skip_special_tokens");
        let text = format!("{path} false is not supported: use return_token_ids to see special tokens");
        return Err(ApiError::at(&path, text));
    }
    Ok(())
}

/// On what terms requests of a caller run that do not say.
pub(super) fn usual_terms(call: &HttpCall) -> Terms {
    let (caller, options) = (&call.caller, &call.app.options);
    let by = |limit: Option<Span>| limit.and_then(|t| arrival().checked_add(t.0));
    Terms {
        priority: caller.priority.max(0),
        tenant: caller.tenant.clone(),
        share: caller.share,
        deadline: by(options.request_timeout),
        begin_by: by(options.queue_timeout),
        tag: call.log.entry().number,
        ..Terms::default()
    }
}

/// Priority, time and who shares what.
fn terms(call: &HttpCall, body: &mut Body, generate: &mut GenerateOptions) -> Result<(), ApiError> {
    let (caller, options) = (&call.caller, &call.app.options);
    generate.terms = call.terms();
    let terms = &mut generate.terms;
    let priority: Option<i32> = body.take("priority")?;
    if priority.is_some_and(|p| !(-100..=100).contains(&p) || p < caller.priority.min(0)) {
        let (path, least) = (body.path("priority"), caller.priority.min(0));
        return Err(ApiError::at(&path, format!("{path} must be from {least} to 100 with this key")));
    }
    terms.priority = priority.unwrap_or(terms.priority);
    let own = match body.take::<f64>("timeout")? {
        None => None,
        Some(seconds) => {
            let path = body.path("timeout");
            let wrong = |_| ApiError::at(&path, format!("{path} is no number of seconds that can be waited"));
            Some(Duration::try_from_secs_f64(seconds).map_err(wrong)?)
        }
    };
    let own = own.and_then(|t| arrival().checked_add(t));
    terms.deadline = own.into_iter().chain(terms.deadline).min();
    let salt: Option<String> = body.take("cache_salt")?;
    let tenant = options.isolate_tenants.then(|| caller.tenant.to_string());
    terms.cache_salt = match (tenant, salt) {
        (None, None) => None,
        // The length keeps `a` + `bc` and `ab` + `c` apart.
        (tenant, salt) => {
            let tenant = tenant.unwrap_or_default();
            Some(Arc::from(format!("{}:{tenant}{}", tenant.len(), salt.unwrap_or_default())))
        }
    };
    if body.take::<bool>("cache_prompt")? == Some(false) {
        // Nobody shares a salt that is used once.
        terms.cache_salt = Some(Arc::from(ids::fresh("once-")));
    }
    Ok(())
}

/// First tokens that stay when the context is full: the request's, where the server shifts contexts at all.
fn kept(call: &HttpCall, body: &mut Body, lease: &Lease) -> Result<Option<usize>, ApiError> {
    let asked = body.take::<i64>("n_keep")?.or(body.take("num_keep")?);
    let most = lease.live.model.info().context / 2;
    let asked = asked.map(|n| usize::try_from(n).unwrap_or(most));
    Ok(call.app.options.context_shift.map(|usual| asked.unwrap_or(usual).min(most)))
}

/// llama-server's slot: -1 is any.
fn slot(call: &HttpCall, body: &mut Body) -> Result<Option<usize>, ApiError> {
    let most = call.app.options.max_running;
    match body.take::<i64>("id_slot")? {
        None | Some(-1) => Ok(None),
        Some(id) => usize::try_from(id).ok().filter(|id| *id < most).map(Some).ok_or_else(|| {
            let path = body.path("id_slot");
            ApiError::at(&path, format!("{path} must be -1, or from 0 to below {most}"))
        }),
    }
}

/// `{name: scale}`, or llama-server's `[{id, scale}]`.
fn adapters(value: Value, path: &str, lease: &Lease) -> Result<Vec<(String, f32)>, ApiError> {
    let names: Vec<&str> = lease.slot().adapters().collect();
    let scale = |value: &Value, path: String| {
        let wrong = || ApiError::at(&path, format!("{path} is {}, but must be a number", kind(value)));
        value.as_f64().map(|s| s as f32).filter(|s| s.is_finite()).ok_or_else(wrong)
    };
    match value {
        Value::Object(map) => {
            map.iter().map(|(name, s)| Ok((name.clone(), scale(s, format!("{path}.{name}"))?))).collect()
        }
        Value::Array(list) => list
            .iter()
            .enumerate()
            .map(|(i, item)| {
                let id = item["id"].as_u64().and_then(|id| names.get(usize::try_from(id).ok()?));
                let missing = || {
                    let text = format!("{path}[{i}].id must be from 0 to below {}", names.len());
                    ApiError::at(format!("{path}[{i}].id"), text)
                };
                Ok((
                    (*id.ok_or_else(missing)?).to_owned(),
                    scale(&item["scale"], format!("{path}[{i}].scale"))?,
                ))
            })
            .collect(),
        other => Err(ApiError::at(
            path,
            format!("{path} is {}, but must be {{name: scale}} or [{{id, scale}}]", kind(&other)),
        )),
    }
}

/// Ollama's way: seconds, a duration, 0 for at once, below 0 for ever.
fn keep_alive(value: &Value, path: &str) -> Result<KeepAlive, ApiError> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let want = "must be seconds, or a duration such as \"5m\"; 0: at once, -1: never";
    text.parse().map_err(|()| ApiError::at(path, format!("{path} {want}")))
}
