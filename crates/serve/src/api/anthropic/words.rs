//! Anthropic's words for ends, counts and blocks.

use crate::run::{Ended, TokenUsage, ToolUse};
use serde_json::{Map, Value, json};

/// The word for an end; none where the reader gave up.
pub fn stop_reason(why: &Ended) -> Option<&'static str> {
    Some(match why {
        Ended::Token(_) => "end_turn",
        Ended::Text(_) => "stop_sequence",
        Ended::ToolCalls => "tool_use",
        Ended::MaxTokens | Ended::Deadline => "max_tokens",
        Ended::Context => "model_context_window_exceeded",
        Ended::Cancelled => return None,
    })
}

/// The text that ended an answer, if it was one.
pub fn stop_sequence(why: &Ended) -> Option<&str> {
    match why {
        Ended::Text(text) => Some(text),
        _ => None,
    }
}

/// Counts: tokens from the cache are told apart from those that were computed.
pub fn usage(u: &TokenUsage) -> Value {
    json!({
        "input_tokens": u.prompt.saturating_sub(u.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": u.cached,
        "output_tokens": u.completion,
    })
}

/// Id of a call.
pub fn tool_id(id: &str) -> String {
    format!("toolu_{}", id.strip_prefix("call_").unwrap_or(id))
}

/// A call in a whole message.
pub fn tool_use(call: &ToolUse) -> Value {
    // An answer that was cut in the middle of a call has half an object.
    let input: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap_or_default();
    json!({"type": "tool_use", "id": tool_id(&call.id), "name": call.name, "input": input})
}
