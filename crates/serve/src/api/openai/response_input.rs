//! Items of a response's input as messages of a conversation, and as they are listed.

use crate::{body::kind, error::ApiError, media::content, run::ids};
use serde_json::{Map, Value, json};

/// A conversation: what was said, and how the model should be.
#[derive(Default)]
pub struct ResponseInput {
    /// For this answer only: later ones do not see it.
    pub instructions: Option<String>,
    /// What was said.
    pub messages: Vec<Value>,
    /// The items that were given now.
    pub items: Vec<Value>,
    /// Fields of items that make no difference.
    pub ignored: Vec<String>,
}

impl ResponseInput {
    /// The messages with the instructions before them.
    pub fn prompt(&self) -> Vec<Value> {
        let system = self.instructions.iter().map(|text| json!({ "role": "system", "content": text }));
        system.chain(self.messages.iter().cloned()).collect()
    }

    /// Adds what is said now; `find` knows the items of answers that are kept, by their ids.
    ///
    /// # Errors
    /// When an item is unknown or broken.
    pub fn read(&mut self, input: Value, find: impl Fn(&str) -> Option<Value>) -> Result<(), ApiError> {
        let items = match input {
            Value::String(text) => vec![json!({ "role": "user", "content": text })],
            Value::Array(items) => items,
            other => {
                let text = format!("input is {}, but must be a text or a list of items", kind(&other));
                return Err(ApiError::at("input", text));
            }
        };
        let mut turns = InputTurns { messages: std::mem::take(&mut self.messages), thought: None };
        for (i, item) in items.into_iter().enumerate() {
            let path = format!("input[{i}]");
            let item = InputItem::new(resolved(item, &path, &find)?, path)?;
            self.ignored.extend(item.unknown());
            turns.add(&item)?;
            self.items.push(item.listed());
        }
        self.messages = turns.messages;
        Ok(())
    }
}

/// The item itself, or the one of a kept answer that it refers to.
fn resolved(item: Value, path: &str, find: &impl Fn(&str) -> Option<Value>) -> Result<Value, ApiError> {
    let bare = item["type"].is_null() && item["role"].is_null() && item["id"].is_string();
    if item["type"] != "item_reference" && !bare {
        return Ok(item);
    }
    let at = format!("{path}.id");
    let id =
        item["id"].as_str().ok_or_else(|| ApiError::at(&at, format!("{at} must be the id of an item")))?;
    let missing = || {
        ApiError::at(&at, format!("{at} is no item of an answer that is kept: answers are kept for an hour"))
    };
    find(id).ok_or_else(missing)
}

/// Kinds of items, and the fields of each that are read or known to make no difference.
const KINDS: &[(&str, &str, &[&str])] = &[
    ("message", "msg_", &["role", "content", "status", "phase"]),
    ("function_call", "fc_", &["call_id", "name", "arguments", "status"]),
    ("function_call_output", "fco_", &["call_id", "output", "status"]),
    ("reasoning", "rs_", &["content", "summary", "encrypted_content", "status"]),
];
/// Roles of messages.
const ROLES: &[&str] = &["user", "assistant", "system", "developer"];

/// An item of the input.
struct InputItem {
    kind: &'static str,
    prefix: &'static str,
    known: &'static [&'static str],
    fields: Map<String, Value>,
    path: String,
}

impl InputItem {
    fn new(item: Value, path: String) -> Result<InputItem, ApiError> {
        let Value::Object(fields) = item else {
            return Err(ApiError::at(&path, format!("{path} is {}, but must be an object", kind(&item))));
        };
        let named = fields.get("type").filter(|t| !t.is_null()).map_or(Some("message"), Value::as_str);
        let found = KINDS.iter().find(|(kind, ..)| Some(*kind) == named);
        let &(kind, prefix, known) = found.ok_or_else(|| {
            let kinds: Vec<_> = KINDS.iter().map(|(kind, ..)| *kind).collect();
            let at = format!("{path}.type");
            ApiError::at(&at, format!("{at} must be one of {} item_reference", kinds.join(" ")))
        })?;
        Ok(InputItem { kind, prefix, known, fields, path })
    }

    /// Paths of the fields that nobody knows.
    fn unknown(&self) -> impl Iterator<Item = String> {
        let known = |name: &str| ["type", "id"].contains(&name) || self.known.contains(&name);
        self.fields.keys().filter(move |name| !known(name)).map(|name| format!("{}.{name}", self.path))
    }

    fn field(&self, name: &str) -> &Value {
        self.fields.get(name).unwrap_or(&Value::Null)
    }

    /// A field that must be a text.
    fn text(&self, name: &str) -> Result<&str, ApiError> {
        let at = format!("{}.{name}", self.path);
        self.field(name).as_str().ok_or_else(|| {
            ApiError::at(&at, format!("{at} is {}, but must be a text", kind(self.field(name))))
        })
    }

    /// What a field with parts says: text, and pictures among it.
    fn parts(&self, name: &str) -> Result<Value, ApiError> {
        content(self.field(name).clone(), &format!("{}.{name}", self.path))
    }

    /// The item as it is listed: with an id, and its content in parts.
    fn listed(&self) -> Value {
        let mut fields = self.fields.clone();
        fields.insert("type".into(), json!(self.kind));
        fields.entry("id").or_insert_with(|| json!(ids::fresh(self.prefix)));
        fields.entry("status").or_insert_with(|| json!("completed"));
        if self.kind == "message" && self.field("content").is_string() {
            let of = if self.field("role") == "assistant" { "output_text" } else { "input_text" };
            let mut part = json!({ "type": of, "text": self.field("content") });
            if of == "output_text" {
                part["annotations"] = json!([]);
            }
            fields.insert("content".into(), json!([part]));
        }
        Value::Object(fields)
    }
}

/// Messages that items become: reasoning, text and calls of one answer are one message.
struct InputTurns {
    messages: Vec<Value>,
    /// Reasoning of an answer whose next item has not come.
    thought: Option<String>,
}

impl InputTurns {
    fn add(&mut self, item: &InputItem) -> Result<(), ApiError> {
        match item.kind {
            "reasoning" => return self.think(item),
            "function_call" => {
                let call = json!({
                    "id": item.text("call_id")?,
                    "type": "function",
                    "function": { "name": item.text("name")?, "arguments": item.text("arguments")? },
                });
                match &mut self.answer()["tool_calls"] {
                    Value::Array(list) => list.push(call),
                    other => *other = json!([call]),
                }
            }
            "function_call_output" => {
                let (id, output) = (item.text("call_id")?, item.parts("output")?);
                self.messages.push(json!({ "role": "tool", "tool_call_id": id, "content": output }));
            }
            _ => self.message(item)?,
        }
        // Reasoning that nothing was said after is not worth a turn.
        self.thought = None;
        Ok(())
    }

    fn think(&mut self, item: &InputItem) -> Result<(), ApiError> {
        let at = format!("{}.content", item.path);
        let parts = match item.field("content") {
            Value::Null => &[][..],
            Value::Array(parts) => parts.as_slice(),
            other => return Err(ApiError::at(&at, format!("{at} is {}, but must be a list", kind(other)))),
        };
        let mut text = String::new();
        for (i, part) in parts.iter().enumerate() {
            let at = format!("{at}[{i}].text");
            let missing = || ApiError::at(&at, format!("{at} must be a text"));
            text += part["text"].as_str().ok_or_else(missing)?;
        }
        if !text.is_empty() {
            self.thought = Some(self.thought.take().unwrap_or_default() + &text);
        }
        Ok(())
    }

    fn message(&mut self, item: &InputItem) -> Result<(), ApiError> {
        let role = item.text("role")?;
        if !ROLES.contains(&role) {
            let at = format!("{}.role", item.path);
            return Err(ApiError::at(&at, format!("{at} must be one of {}", ROLES.join(" "))));
        }
        let mut message = json!({ "role": role, "content": item.parts("content")? });
        if let Some(thought) = self.thought.take().filter(|_| role == "assistant") {
            message["reasoning_content"] = json!(thought);
        }
        self.messages.push(message);
        Ok(())
    }

    /// The assistant's turn that is going on, or a new one.
    fn answer(&mut self) -> &mut Value {
        let goes_on =
            self.messages.last().is_some_and(|m| m["role"] == "assistant") && self.thought.is_none();
        if !goes_on {
            self.messages.push(json!({ "role": "assistant", "content": null }));
        }
        let last = self.messages.len() - 1;
        if let Some(thought) = self.thought.take() {
            self.messages[last]["reasoning_content"] = json!(thought);
        }
        &mut self.messages[last]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: Value) -> Result<ResponseInput, ApiError> {
        let kept = json!({ "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": "kept", "annotations": [], "logprobs": [] }] });
        let mut read = ResponseInput::default();
        read.read(input, |id| (id == "msg_1").then(|| kept.clone()))?;
        Ok(read)
    }

    #[test]
    fn items_become_messages() {
        let items = json!([
            { "role": "user", "content": [{ "type": "input_text", "text": "hi" }] },
            { "type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}" },
            { "type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "c1", "output": "7" },
        ]);
        let messages = read(items).unwrap().messages;
        let roles: Vec<_> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "tool"]);
        assert_eq!(messages[1]["tool_calls"].as_array().unwrap().len(), 2);
        assert_eq!(messages[2]["tool_call_id"], "c1");
    }

    #[test]
    fn reasoning_is_a_part_of_what_was_said_after_it() {
        let thought = |text: &str| {
            json!({ "type": "reasoning", "id": "rs_1", "summary": [],
            "content": [{ "type": "reasoning_text", "text": text }] })
        };
        let said = json!({ "type": "message", "role": "assistant", "content": "yes" });
        let call = json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" });
        let asked = json!({ "role": "user", "content": "so?" });
        let called =
            json!([{ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } }]);
        for (items, want) in [
            (
                json!([asked, thought("hm"), said, call]),
                json!([{ "role": "assistant", "content": "yes", "reasoning_content": "hm", "tool_calls": called }]),
            ),
            (
                json!([asked, thought("a"), thought("b"), call]),
                json!([{ "role": "assistant", "content": null, "reasoning_content": "ab", "tool_calls": called }]),
            ),
            (json!([asked, thought("hm")]), json!([])),
            (json!([asked, thought("hm"), asked]), json!([{ "role": "user", "content": "so?" }])),
            (
                json!([asked, { "type": "reasoning", "summary": [] }, said]),
                json!([{ "role": "assistant", "content": "yes" }]),
            ),
        ] {
            assert_eq!(json!(read(items.clone()).unwrap().messages[1..]), want, "{items}");
        }
    }

    #[test]
    fn items_are_referred_to_and_listed() {
        for reference in [json!({ "type": "item_reference", "id": "msg_1" }), json!({ "id": "msg_1" })] {
            let read = read(json!([reference])).unwrap();
            assert_eq!(read.messages, [json!({ "role": "assistant", "content": "kept" })]);
            assert_eq!(read.items[0]["id"], "msg_1");
        }
        let read = read(json!("hi")).unwrap();
        assert_eq!(read.items[0]["content"], json!([{ "type": "input_text", "text": "hi" }]));
        assert!(read.items[0]["id"].as_str().is_some_and(|id| id.starts_with("msg_")));
    }

    #[test]
    fn what_is_wrong_is_named_by_its_place() {
        let call = |fields: Value| {
            let mut call = json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" });
            call.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            call
        };
        for (item, param) in [
            (json!(7), "input[1]"),
            (json!({ "type": 7 }), "input[1].type"),
            (json!({ "type": "computer_call" }), "input[1].type"),
            (json!({ "role": "tool", "content": "x" }), "input[1].role"),
            (json!({ "content": "x" }), "input[1].role"),
            (json!({ "role": "user", "content": 7 }), "input[1].content"),
            (
                json!({ "role": "user", "content": [{ "type": "input_image" }] }),
                "input[1].content[0].image_url",
            ),
            (
                json!({ "role": "user", "content": [{ "type": "input_image", "file_id": "f" }] }),
                "input[1].content[0].file_id",
            ),
            (call(json!({ "arguments": {} })), "input[1].arguments"),
            (call(json!({ "call_id": null })), "input[1].call_id"),
            (json!({ "type": "function_call_output", "call_id": "c", "output": 7 }), "input[1].output"),
            (json!({ "type": "reasoning", "content": "x" }), "input[1].content"),
            (json!({ "type": "item_reference", "id": "msg_2" }), "input[1].id"),
        ] {
            let error = read(json!([{ "role": "user", "content": "hi" }, item])).err().expect("an error");
            assert_eq!(error.param.as_deref(), Some(param), "{item}");
        }
        assert!(read(json!(7)).is_err());
        let read = read(json!([{ "role": "user", "content": "hi", "rolle": 1, "id": "x" }])).unwrap();
        assert_eq!(read.ignored, ["input[0].rolle"]);
    }
}
