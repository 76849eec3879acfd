//! What the bodies of generate and chat have in common.

use super::fields::REQUEST_OPTIONS;
use crate::{
    body::{Body, kind, typed},
    call::{HttpCall, sent_files},
    error::ApiError,
    media::{MediaKind, SentMedia, picture_part},
    models::Lease,
    options::KeepAlive,
    run::{FormSource, WantedForm, Wishes},
};
use lamina::ReasoningMode;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The wishes of a request: its options, logprobs, and how long the model stays.
///
/// # Errors
/// When a field has a wrong type or value.
pub fn wishes(call: &HttpCall, body: &mut Body, lease: &Lease) -> Result<Wishes, ApiError> {
    keep_alive(body, lease)?;
    let mut options = options(call, body)?;
    context(&mut options, lease)?;
    if options.take::<f64>("tfs_z")?.is_some_and(|z| z != 1.0) {
        return Err(ApiError::at("options.tfs_z", "options.tfs_z must be 1: there is no such sampler"));
    }
    let most: Option<i64> = options.take("num_predict")?;
    let mut wishes = call.options(&mut options, lease)?;
    call.finish(options);
    match most {
        None => {}
        Some(-1 | -2) => wishes.generate.max_tokens = None,
        Some(n) => {
            let wrong =
                |_| ApiError::at("options.num_predict", "options.num_predict must be -2, -1 or from 0");
            wishes.generate.max_tokens = Some(usize::try_from(n).map_err(wrong)?);
        }
    }
    wishes.generate.sampling.logprobs.count = logprobs(body)?;
    wishes.ask_form(format(body)?)?;
    refuse_truncation(body)?;
    Ok(wishes)
}

/// Reads what requests for vectors have of it; of sampling they take nothing.
///
/// # Errors
/// As for [`wishes`].
pub fn options_of_vectors(call: &HttpCall, body: &mut Body, lease: &Lease) -> Result<(), ApiError> {
    keep_alive(body, lease)?;
    let mut options = options(call, body)?;
    context(&mut options, lease)?;
    call.finish(options);
    refuse_truncation(body)
}

fn refuse_truncation(body: &mut Body) -> Result<(), ApiError> {
    match body.take::<bool>("truncate")? {
        Some(true) => Err(ApiError::at("truncate", "truncate must be false: a prompt is never cut")),
        _ => Ok(()),
    }
}

/// The object `options`, with no fields where it is not given.
fn options(call: &HttpCall, body: &mut Body) -> Result<Body, ApiError> {
    match call.nested(body, "options", &REQUEST_OPTIONS)? {
        Some(options) => Ok(options),
        None => Body::new(json!({}), &REQUEST_OPTIONS, "options", false),
    }
}

/// A longer context than the model is loaded with cannot be had: less would be other than was asked for.
fn context(options: &mut Body, lease: &Lease) -> Result<(), ApiError> {
    let have = lease.live.model.info().context;
    match options.take::<usize>("num_ctx")? {
        Some(wanted) if wanted > have => {
            let text =
                format!("options.num_ctx is {wanted}, but the model is loaded with a context of {have}");
            Err(ApiError::at("options.num_ctx", text))
        }
        Some(_) => {
            options.ignore("num_ctx");
            Ok(())
        }
        None => Ok(()),
    }
}

/// Reads `keep_alive` and tells the model.
///
/// # Errors
/// When it is no time.
pub fn keep_alive(body: &mut Body, lease: &Lease) -> Result<Option<KeepAlive>, ApiError> {
    let Some(value) = body.value("keep_alive") else { return Ok(None) };
    let text = match &value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let wrong = |()| {
        let text = "keep_alive must be seconds, or a duration such as \"5m\"; 0: at once, -1: never";
        ApiError::at("keep_alive", text)
    };
    let alive: KeepAlive = text.parse().map_err(wrong)?;
    lease.keep_alive(alive);
    Ok(Some(alive))
}

/// True for a time that unloads at once.
pub fn unloads(alive: Option<KeepAlive>) -> bool {
    alive == Some(KeepAlive::For(Duration::ZERO))
}

fn logprobs(body: &mut Body) -> Result<Option<u32>, ApiError> {
    let wanted = body.take("logprobs")?.unwrap_or(false);
    match body.take::<u32>("top_logprobs")? {
        Some(n) if n > 20 => Err(ApiError::at("top_logprobs", "top_logprobs must be from 0 to 20")),
        Some(n) if n > 0 && !wanted => Err(ApiError::at("top_logprobs", "top_logprobs needs logprobs true")),
        top => Ok(wanted.then(|| top.unwrap_or(0))),
    }
}

/// The form of the answer: a schema, or `json` for any object.
fn format(body: &mut Body) -> Result<Option<WantedForm>, ApiError> {
    match body.value("format") {
        None => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) if text == "json" => {
            Ok(Some(WantedForm { path: "format".to_owned(), source: FormSource::Json }))
        }
        Some(Value::String(_)) => Err(ApiError::at("format", "format must be json, or a JSON schema")),
        Some(schema) => Ok(Some(WantedForm::schema("format", schema))),
    }
}

/// The pictures of a field: files in base64.
///
/// # Errors
/// When it is no list of texts.
pub fn images_of(images: Option<Value>, path: &str) -> Result<Vec<SentMedia>, ApiError> {
    let files: Option<Vec<String>> = images.map(|images| typed(images, path)).transpose()?.flatten();
    Ok(sent_files(files.unwrap_or_default(), path, |_| MediaKind::Picture))
}

/// A text with the pictures beside it, which stand before it: a list of files in base64.
///
/// # Errors
/// When it is something else.
pub fn with_images(text: Value, images: Option<Value>, path: &str) -> Result<Value, ApiError> {
    let sent = images_of(images, path)?;
    let mut parts: Vec<Value> = sent.into_iter().map(|sent| picture_part(&sent.at, sent.url)).collect();
    match (parts.is_empty(), text) {
        (true, text) => return Ok(text),
        (false, Value::Array(more)) => parts.extend(more),
        (false, Value::Null) => {}
        (false, text) => parts.push(json!({"type": "text", "text": text})),
    }
    Ok(Value::Array(parts))
}

/// Whether, or how long, the model reasons, and the variables that tell its template.
///
/// # Errors
/// When `think` is neither true or false nor a text.
pub fn thinking(body: &mut Body) -> Result<(ReasoningMode, Map<String, Value>), ApiError> {
    let (mode, name, value) = match body.value("think") {
        None => return Ok((ReasoningMode::Template, Map::new())),
        Some(Value::Bool(true)) => (ReasoningMode::On, "enable_thinking", json!(true)),
        Some(Value::Bool(false)) => (ReasoningMode::Off, "enable_thinking", json!(false)),
        Some(Value::String(level)) => (ReasoningMode::Template, "reasoning_effort", json!(level)),
        Some(other) => {
            let text = format!("think is {}, but must be true, false or a text", kind(&other));
            return Err(ApiError::at("think", text));
        }
    };
    Ok((mode, Map::from_iter([(name.to_owned(), value)])))
}
