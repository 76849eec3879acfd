//! `lamina run` with a server's model.

use super::{figures::Figures, server::RemoteServer};
use crate::{
    error::Result,
    output::{self, LineEnd},
};
use serde_json::{Map, Value, json};

const PATH: &str = "/completions";

/// Streams the continuation of `prompt` to stdout and returns a line about it.
///
/// # Errors
/// When there is no answer, or stdout takes no more.
pub async fn complete(
    server: &RemoteServer,
    model: Option<String>,
    prompt: &str,
    fields: Map<String, Value>,
) -> Result<String> {
    let mut body = body(model, prompt, fields);
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let mut figures = Figures::begin();
    let mut events = server.stream(PATH, &body).await?;
    let mut end = LineEnd::default();
    while let Some(chunk) = events.next().await? {
        figures.take(&chunk);
        if let Some(text) = chunk["choices"][0]["text"].as_str().filter(|t| !t.is_empty()) {
            figures.piece();
            end.write(text)?;
        }
    }
    end.finish()?;
    if figures.finish.is_none() {
        return Err(events.cut_off());
    }
    Ok(figures.line())
}

/// The answers to `prompt` as one object in the words of completion APIs.
///
/// # Errors
/// When there is no answer.
pub async fn complete_whole(
    server: &RemoteServer,
    model: Option<String>,
    prompt: &str,
    fields: Map<String, Value>,
) -> Result<Value> {
    let answer = server.post(PATH, &body(model, prompt, fields)).await?;
    let part = |choice: &Value| {
        json!({
            "index": choice["index"],
            "text": choice["text"],
            "finish_reason": choice["finish_reason"],
            "logprobs": choice["logprobs"],
        })
    };
    let choices = answer["choices"].as_array().map(|list| list.iter().map(part).collect::<Vec<_>>());
    let usage = &answer["usage"];
    Ok(json!({
        "model": answer["model"],
        "prompt": prompt,
        "choices": choices.unwrap_or_default(),
        "usage": {
            "prompt_tokens": usage["prompt_tokens"],
            "cached_tokens": usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0),
            "completion_tokens": usage["completion_tokens"],
        },
        "timings": answer["timings"],
    }))
}

/// Writes the texts of `answer`, a line of dashes between them.
///
/// # Errors
/// When stdout takes no more.
pub fn write_texts(answer: &Value) -> Result<()> {
    for (i, choice) in answer["choices"].as_array().into_iter().flatten().enumerate() {
        let mut end = LineEnd::default();
        end.write(if i > 0 { "---\n" } else { "" })?;
        end.write(choice["text"].as_str().unwrap_or_default())?;
        end.finish()?;
    }
    output::text("")
}

fn body(model: Option<String>, prompt: &str, mut fields: Map<String, Value>) -> Value {
    fields.extend(model.map(|name| ("model".to_owned(), json!(name))));
    fields.insert("prompt".to_owned(), json!(prompt));
    Value::Object(fields)
}
