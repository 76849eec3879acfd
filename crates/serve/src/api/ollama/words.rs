//! Ollama's words for ends, times and logprobs.

use crate::{
    api::shared::{logprob, piece},
    models::{ModelFacts, ModelSlot, now, rfc3339},
    run::{ChosenToken, Ended, TokenUsage},
};
use lamina::{Timings, Tokenizer};
use serde_json::{Map, Value, json};
use std::time::Instant;

/// What stands in every object of one answer.
#[derive(Debug, Clone)]
pub struct ReplyHead {
    model: String,
    began: Instant,
}

impl ReplyHead {
    /// The head of an answer that was asked for now.
    pub fn new(model: &str) -> ReplyHead {
        ReplyHead { model: model.to_owned(), began: Instant::now() }
    }

    /// An object of the answer.
    pub fn object(&self, done: bool) -> Map<String, Value> {
        Map::from_iter([
            ("model".to_owned(), json!(self.model)),
            ("created_at".to_owned(), json!(rfc3339(now()))),
            ("done".to_owned(), json!(done)),
        ])
    }

    /// The last object's reason, counts and times, in nanoseconds.
    pub fn counts(&self, why: Option<&Ended>, usage: &TokenUsage, timings: &Timings) -> Map<String, Value> {
        let nanos = |seconds: f64| (seconds * 1e9).round() as u64;
        let mut object = self.object(true);
        let counts = [
            ("done_reason", json!(why.map_or("stop", done_reason))),
            ("total_duration", json!(self.began.elapsed().as_nanos() as u64)),
            ("load_duration", json!(0)),
            ("prompt_eval_count", json!(usage.prompt)),
            ("prompt_eval_duration", json!(nanos(timings.prefill_seconds))),
            ("eval_count", json!(usage.completion)),
            ("eval_duration", json!(nanos(timings.decode_seconds))),
        ];
        object.extend(counts.map(|(name, value)| (name.to_owned(), value)));
        object
    }

    /// What answers a request without a prompt.
    pub fn loaded(&self, reason: &str) -> Map<String, Value> {
        let mut object = self.object(true);
        object.insert("done_reason".to_owned(), json!(reason));
        object
    }
}

fn done_reason(why: &Ended) -> &'static str {
    match why {
        Ended::MaxTokens | Ended::Context | Ended::Deadline => "length",
        Ended::Token(_) | Ended::Text(_) | Ended::ToolCalls | Ended::Cancelled => "stop",
    }
}

/// Logprobs of tokens.
pub fn logprobs(tokenizer: Option<&Tokenizer>, tokens: &[ChosenToken]) -> Value {
    let entry = |id: u32, value: f32| {
        let (text, bytes) = piece(tokenizer, id);
        json!({"token": text, "logprob": logprob(value), "bytes": bytes})
    };
    let told = tokens.iter().filter_map(|token| {
        let mut value = entry(token.id, token.logprob?);
        value["top_logprobs"] = token.top.iter().map(|&(id, l)| entry(id, l)).collect();
        Some(value)
    });
    told.collect()
}

/// Sizes and types of a model; empty texts where its files cannot be read.
pub fn details(facts: Option<&ModelFacts>) -> Value {
    let text = |value: Option<String>| value.unwrap_or_default();
    let family = text(facts.map(|f| f.architecture.clone()));
    json!({
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family],
        "parameter_size": text(facts.map(|f| parameters(f.params))),
        "quantization_level": text(facts.map(|f| f.type_name.clone())),
    })
}

/// `7.2B` or `260.0K`.
fn parameters(count: u64) -> String {
    let units = [(1e9, "B"), (1e6, "M"), (1e3, "K")];
    let count = count as f64;
    let fits = units.iter().find(|(size, _)| count >= *size);
    fits.map_or_else(|| format!("{count}"), |(size, unit)| format!("{:.1}{unit}", count / size))
}

/// A model in the lists, under its own name. Its files may be read for it.
pub fn listed(slot: &ModelSlot) -> Map<String, Value> {
    let facts = slot.facts().ok();
    let facts = facts.as_deref();
    let value = json!({
        "name": slot.name,
        "model": slot.name,
        "modified_at": rfc3339(slot.created),
        "size": facts.map_or(0, |f| f.bytes),
        "digest": facts.map_or("", |f| &f.digest),
        "details": details(facts),
        "capabilities": facts.map(ModelFacts::capabilities).unwrap_or_default(),
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_a_unit() {
        for (count, text) in [(7_241_732_096, "7.2B"), (260_032, "260.0K"), (12, "12")] {
            assert_eq!(parameters(count), text);
        }
    }
}
