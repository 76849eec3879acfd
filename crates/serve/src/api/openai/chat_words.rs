//! Parts of chat bodies: logprobs, tool calls, messages.

use crate::{
    api::shared::{logprob, piece},
    run::{ChosenToken, ToolUse, WholeChoice},
};
use lamina::Tokenizer;
use serde_json::{Value, json};

/// The logprobs of tokens.
pub fn content_logprobs(tokenizer: Option<&Tokenizer>, tokens: &[ChosenToken]) -> Value {
    let entry = |id: u32, value: f32| {
        let (text, bytes) = piece(tokenizer, id);
        json!({ "token": text, "logprob": logprob(value), "bytes": bytes })
    };
    let content: Vec<Value> = tokens
        .iter()
        .filter_map(|token| {
            let mut value = entry(token.id, token.logprob?);
            value["top_logprobs"] = token.top.iter().map(|&(id, l)| entry(id, l)).collect();
            Some(value)
        })
        .collect();
    json!({ "content": content, "refusal": null })
}

/// A call as it stands in a whole message.
fn tool_call(call: &ToolUse) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": { "name": call.name, "arguments": call.arguments },
    })
}

/// The message of a whole answer.
pub fn message(choice: &WholeChoice) -> Value {
    let calls: Vec<Value> = choice.calls.iter().map(tool_call).collect();
    // An answer that only calls tools has no content.
    let content = if choice.text.is_empty() && !calls.is_empty() { Value::Null } else { json!(choice.text) };
    let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
    if !choice.reasoning.is_empty() {
        message["reasoning_content"] = json!(choice.reasoning);
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    message
}
