//! What chat and plain completions say alike.

use crate::{
    body::{FieldSpec, harmless},
    run::{Ended, MediaTokens, Started, TokenUsage, asked_at, ids},
};
use serde_json::{Map, Value, json};

/// Who asks for whom.
pub const USER: FieldSpec = harmless("user", "machine time is counted for keys");

/// Fields of OpenAI's that make no difference here.
pub const HARMLESS: &[FieldSpec] = &[
    USER,
    harmless("metadata", "nothing is kept"),
    harmless("safety_identifier", "nobody is reported"),
    harmless("prompt_cache_key", "beginnings are found by their content"),
    harmless("prompt_cache_retention", "beginnings are kept while there is room"),
    harmless("prompt_cache_options", "beginnings are found by their content"),
];

/// What stands at the head of every body and chunk of one answer.
#[derive(Debug, Clone)]
pub struct AnswerHead {
    /// Its id.
    pub id: String,
    /// Unix time.
    pub created: u64,
    /// Name that serves it.
    pub model: String,
    /// What it can be repeated under.
    pub fingerprint: String,
}

impl AnswerHead {
    /// The head of a new answer.
    pub fn new(prefix: &str, model: &str, fingerprint: &str) -> AnswerHead {
        AnswerHead {
            id: ids::fresh(prefix),
            created: asked_at(),
            model: model.to_owned(),
            fingerprint: fingerprint.to_owned(),
        }
    }

    /// A body or chunk of this answer.
    pub fn object(&self, object: &str, choices: Vec<Value>) -> Map<String, Value> {
        let value = json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "choices": choices,
        });
        match value {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}

/// OpenAI's word for an end.
pub fn finish_reason(why: &Ended) -> &'static str {
    match why {
        Ended::Token(_) | Ended::Text(_) | Ended::Cancelled => "stop",
        Ended::ToolCalls => "tool_calls",
        Ended::MaxTokens | Ended::Context | Ended::Deadline => "length",
    }
}

/// The counts of a request.
pub fn usage(u: &TokenUsage) -> Value {
    let mut counts = json!({
        "prompt_tokens": u.prompt,
        "completion_tokens": u.completion,
        "total_tokens": u.total(),
        "prompt_tokens_details": { "cached_tokens": u.cached },
        "completion_tokens_details": { "reasoning_tokens": u.reasoning },
    });
    tell_media(&mut counts["prompt_tokens_details"], u.media);
    counts
}

/// Adds the tokens of pictures and sounds to the details of a prompt's tokens, where there are any.
pub fn tell_media(details: &mut Value, tokens: MediaTokens) {
    for (name, count) in [("image_tokens", tokens.image), ("audio_tokens", tokens.audio)] {
        if count > 0 {
            details[name] = count.into();
        }
    }
}

/// When usage is told in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StreamUsage {
    /// Never.
    #[default]
    Never,
    /// In a chunk of its own at the end; null in the others.
    AtEnd,
    /// In every chunk, as it grows.
    Always,
}

/// Counts usage for streams that tell it all the time.
#[derive(Debug, Clone, Default)]
pub struct GrowingUsage(TokenUsage);

impl GrowingUsage {
    /// Nothing but the prompts yet.
    pub fn begin(&mut self, started: &Started) {
        self.0.prompt = started.prompt_tokens.iter().sum();
        self.0.media = started.media_tokens;
    }

    /// So many tokens more.
    pub fn grow(&mut self, tokens: usize) {
        self.0.completion += tokens;
    }

    /// As JSON.
    pub fn value(&self) -> Value {
        usage(&self.0)
    }
}
