//! Parts of responses: the body around the output, and its items.

use super::chat_words::content_logprobs;
use crate::{
    body::Body,
    models::now,
    run::{ChosenToken, TokenUsage, WholeChoice, Wishes, ids},
};
use lamina::Tokenizer;
use serde_json::{Map, Value, json};

/// What a response says beside its output: mostly what was asked for.
pub struct Echoing {
    /// Its id.
    pub id: String,
    /// What the client keeps with it.
    pub metadata: Map<String, Value>,
    fields: Map<String, Value>,
}

/// The value of a field that was not given.
type Usual = fn() -> Value;

/// Fields that come back as they were given, and what they are where they were not.
const GIVEN: &[(&str, Usual)] = &[
    ("instructions", || Value::Null),
    ("max_output_tokens", || Value::Null),
    ("parallel_tool_calls", || json!(true)),
    ("previous_response_id", || Value::Null),
    ("reasoning", || json!({ "effort": null, "summary": null })),
    ("store", || json!(true)),
    ("text", || json!({ "format": { "type": "text" } })),
    ("tool_choice", || json!("auto")),
    ("tools", || json!([])),
    ("top_logprobs", || json!(0)),
    ("user", || Value::Null),
];

impl Echoing {
    /// What a body asks for.
    pub fn new(body: &Body) -> Echoing {
        let given = GIVEN.iter().map(|(name, usual)| {
            let value = body.peek(name).cloned();
            ((*name).to_owned(), value.unwrap_or_else(usual))
        });
        Echoing { id: ids::fresh("resp_"), metadata: Map::new(), fields: given.collect() }
    }

    /// What the answer is made with, and who makes it.
    pub fn settle(&mut self, wishes: &Wishes, model: &str) {
        let sampling = &wishes.generate.sampling;
        let number = |name: &str| match sampling.get(name) {
            Ok(lamina::sample::Value::Float(x)) => json!(x),
            Ok(lamina::sample::Value::Int(n)) => json!(n),
            _ => Value::Null,
        };
        let more = json!({
            "object": "response",
            "created_at": now(),
            "model": model,
            "background": false,
            "error": null,
            "incomplete_details": null,
            "temperature": number("temperature"),
            "top_p": number("top_p"),
            "presence_penalty": number("presence_penalty"),
            "frequency_penalty": number("frequency_penalty"),
            "truncation": "disabled",
            "service_tier": "default",
            "usage": null,
        });
        if let Value::Object(more) = more {
            self.fields.extend(more);
        }
    }

    /// The body with this output.
    pub fn body(&self, status: &str, output: Vec<Value>) -> Value {
        let mut fields = self.fields.clone();
        fields.insert("id".into(), json!(self.id));
        fields.insert("metadata".into(), json!(self.metadata));
        fields.insert("status".into(), json!(status));
        fields.insert("output".into(), json!(output));
        Value::Object(fields)
    }
}

/// A message's part with its logprobs.
pub fn message_part(tokenizer: Option<&Tokenizer>, text: &str, tokens: &[ChosenToken]) -> Value {
    let logprobs = content_logprobs(tokenizer, tokens)["content"].clone();
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": logprobs })
}

/// The items of a whole answer.
pub fn items(tokenizer: Option<&Tokenizer>, choice: &WholeChoice, logprobs: bool) -> Vec<Value> {
    let mut items = vec![];
    if !choice.reasoning.is_empty() {
        items.push(json!({
            "id": ids::fresh("rs_"), "type": "reasoning", "summary": [], "status": "completed",
            "content": [{ "type": "reasoning_text", "text": choice.reasoning }],
        }));
    }
    if !choice.text.is_empty() || choice.calls.is_empty() {
        let tokens = if logprobs { &choice.tokens[..] } else { &[] };
        items.push(json!({
            "id": ids::fresh("msg_"), "type": "message", "role": "assistant", "status": "completed",
            "content": [message_part(tokenizer, &choice.text, tokens)],
        }));
    }
    items.extend(choice.calls.iter().map(|call| {
        json!({
            "id": ids::fresh("fc_"), "type": "function_call", "call_id": call.id, "name": call.name,
            "arguments": call.arguments, "status": "completed",
        })
    }));
    items
}

/// The counts of a response.
pub fn usage(u: &TokenUsage) -> Value {
    json!({
        "input_tokens": u.prompt,
        "input_tokens_details": { "cached_tokens": u.cached, "cache_write_tokens": 0 },
        "output_tokens": u.completion,
        "output_tokens_details": { "reasoning_tokens": u.reasoning },
        "total_tokens": u.total(),
    })
}
