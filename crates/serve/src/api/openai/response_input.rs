//! Items of a response's input as messages of a conversation.

use crate::{body::kind, error::ApiError};
use serde_json::{Value, json};

/// A conversation: what was said, and how the model should be.
pub struct ResponseInput {
    /// For this answer only: later ones do not see it.
    pub instructions: Option<String>,
    /// What was said.
    pub messages: Vec<Value>,
}

impl ResponseInput {
    /// The messages with the instructions before them.
    pub fn prompt(&self) -> Vec<Value> {
        let system = self.instructions.iter().map(|text| json!({ "role": "system", "content": text }));
        system.chain(self.messages.iter().cloned()).collect()
    }
}

/// The messages that items stand for.
///
/// # Errors
/// When an item is unknown or broken.
pub fn read(input: Value) -> Result<Vec<Value>, ApiError> {
    let items = match input {
        Value::String(text) => return Ok(vec![json!({ "role": "user", "content": text })]),
        Value::Array(items) => items,
        other => {
            let text = format!("input is {}, but must be a text or a list of items", kind(&other));
            return Err(ApiError::at("input", text));
        }
    };
    let mut messages: Vec<Value> = vec![];
    for (i, item) in items.into_iter().enumerate() {
        add(&mut messages, &item, &format!("input[{i}]"))?;
    }
    Ok(messages)
}

fn add(messages: &mut Vec<Value>, item: &Value, path: &str) -> Result<(), ApiError> {
    let kind = item["type"].as_str().unwrap_or("message");
    match kind {
        "message" => messages.push(json!({ "role": item["role"], "content": item["content"] })),
        "function_call" => {
            let call = json!({
                "id": item["call_id"],
                "type": "function",
                "function": { "name": item["name"], "arguments": item["arguments"] },
            });
            assistant(messages, "tool_calls", |calls| match calls {
                Value::Array(list) => list.push(call),
                other => *other = json!([call]),
            });
        }
        "function_call_output" => {
            messages
                .push(json!({ "role": "tool", "tool_call_id": item["call_id"], "content": item["output"] }));
        }
        "reasoning" => {
            let parts = item["content"].as_array().into_iter().flatten();
            let text: Vec<&str> = parts.filter_map(|p| p["text"].as_str()).collect();
            if !text.is_empty() {
                messages.push(
                    json!({ "role": "assistant", "content": null, "reasoning_content": text.join("") }),
                );
            }
        }
        "item_reference" => {
            let text =
                format!("{path} refers to an item, which is not kept by itself: use previous_response_id");
            return Err(ApiError::at(path, text));
        }
        other => {
            let shown: String = other.chars().filter(|c| !c.is_control()).take(40).collect();
            return Err(ApiError::at(
                format!("{path}.type"),
                format!("{path}.type `{shown}` is not supported"),
            ));
        }
    }
    Ok(())
}

/// Changes a field of the assistant's turn that is going on, or of a new one.
fn assistant(messages: &mut Vec<Value>, field: &str, change: impl FnOnce(&mut Value)) {
    if messages.last().is_none_or(|m| m["role"] != "assistant") {
        messages.push(json!({ "role": "assistant", "content": null }));
    }
    if let Some(last) = messages.last_mut() {
        change(&mut last[field]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_become_messages() {
        let items = json!([
            { "role": "user", "content": [{ "type": "input_text", "text": "hi" }] },
            { "type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}" },
            { "type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "c1", "output": "7" },
        ]);
        let messages = read(items).unwrap();
        let roles: Vec<_> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "tool"]);
        assert_eq!(messages[1]["tool_calls"].as_array().unwrap().len(), 2);
        assert_eq!(messages[2]["tool_call_id"], "c1");
        assert_eq!(
            read(json!([{ "type": "computer_call" }])).unwrap_err().param.as_deref(),
            Some("input[0].type")
        );
        assert!(read(json!(7)).is_err());
    }
}
