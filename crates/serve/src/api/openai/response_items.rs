//! Parts of responses: the body around the output, and its items.

use super::{chat_words::content_logprobs, words::tell_media};
use crate::{
    body::Body,
    run::{AnswerBlock, BlockKind, ChosenToken, Ended, TokenUsage, WholeChoice, Wishes, asked_at, ids},
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
            let mut value = usual();
            match (body.peek(name), &mut value) {
                // What an object does not say is as usual.
                (Some(Value::Object(given)), Value::Object(usual)) => usual.extend(given.clone()),
                (Some(given), value) => *value = given.clone(),
                (None, _) => {}
            }
            ((*name).to_owned(), value)
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
            "created_at": asked_at(),
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

/// What stands in an output: an item, whole or still growing.
#[derive(Debug, Clone)]
pub struct OutputItem {
    /// Its id.
    pub id: String,
    /// What it is.
    pub kind: ItemKind,
    /// Its text, or the arguments of a call.
    pub text: String,
    /// The tokens of its text that logprobs are told of.
    pub tokens: Vec<ChosenToken>,
}

/// Kinds of items.
#[derive(Debug, Clone, PartialEq)]
pub enum ItemKind {
    /// Reasoning.
    Reasoning,
    /// A message.
    Message,
    /// A call of a function.
    Call {
        /// Its id.
        id: String,
        /// The function.
        name: String,
    },
}

impl OutputItem {
    /// An item that has not begun.
    pub fn new(kind: ItemKind) -> OutputItem {
        let prefix = match kind {
            ItemKind::Reasoning => "rs_",
            ItemKind::Message => "msg_",
            ItemKind::Call { .. } => "fc_",
        };
        OutputItem { id: ids::fresh(prefix), kind, text: String::new(), tokens: vec![] }
    }

    /// The part of content that it has; calls have none.
    pub fn part(&self, tokenizer: Option<&Tokenizer>) -> Option<Value> {
        match self.kind {
            ItemKind::Reasoning => Some(json!({ "type": "reasoning_text", "text": self.text })),
            ItemKind::Message => Some(json!({ "type": "output_text", "text": self.text, "annotations": [],
                "logprobs": logprobs(tokenizer, &self.tokens) })),
            ItemKind::Call { .. } => None,
        }
    }

    /// The item with its content so far.
    pub fn value(&self, status: &str, content: Value) -> Value {
        match &self.kind {
            ItemKind::Reasoning => json!({
                "id": self.id, "type": "reasoning", "summary": [], "content": content, "status": status }),
            ItemKind::Message => json!({
                "id": self.id, "type": "message", "role": "assistant", "content": content, "status": status }),
            ItemKind::Call { id, name } => json!({
                "id": self.id, "type": "function_call", "call_id": id, "name": name, "arguments": self.text,
                "status": status }),
        }
    }

    /// The item when it has ended.
    pub fn ended(&self, tokenizer: Option<&Tokenizer>, status: &str) -> Value {
        self.value(status, self.part(tokenizer).into_iter().collect())
    }
}

/// The logprobs of a message's tokens.
pub fn logprobs(tokenizer: Option<&Tokenizer>, tokens: &[ChosenToken]) -> Value {
    content_logprobs(tokenizer, tokens)["content"].take()
}

/// The items of a whole answer. One that says nothing and calls nothing is an empty message.
pub fn items(choice: &WholeChoice, logprobs: bool) -> Vec<OutputItem> {
    let item = |block: &AnswerBlock| {
        let call = |i: usize| choice.calls.get(i).cloned().unwrap_or_default();
        let mut item = OutputItem::new(match block.kind {
            BlockKind::Reasoning => ItemKind::Reasoning,
            BlockKind::Text => ItemKind::Message,
            BlockKind::Call(i) => ItemKind::Call { id: call(i).id, name: call(i).name },
        });
        item.text = match block.kind {
            BlockKind::Call(i) => call(i).arguments,
            _ => choice.text_of(block).to_owned(),
        };
        if logprobs && block.kind == BlockKind::Text {
            item.tokens = choice.tokens_of(block).to_vec();
        }
        item
    };
    let mut items: Vec<OutputItem> = choice.blocks.iter().map(item).collect();
    if items.iter().all(|item| item.kind == ItemKind::Reasoning) {
        items.push(OutputItem::new(ItemKind::Message));
    }
    items
}

/// How an item stands when its answer has ended so: only the last one can be cut.
pub fn item_status(why: Option<&Ended>) -> &'static str {
    match why {
        Some(Ended::Token(_) | Ended::Text(_) | Ended::ToolCalls) => "completed",
        _ => "incomplete",
    }
}

/// The counts of a response.
pub fn usage(u: &TokenUsage) -> Value {
    let mut counts = json!({
        "input_tokens": u.prompt,
        "input_tokens_details": { "cached_tokens": u.cached, "cache_write_tokens": 0 },
        "output_tokens": u.completion,
        "output_tokens_details": { "reasoning_tokens": u.reasoning },
        "total_tokens": u.total(),
    });
    tell_media(&mut counts["input_tokens_details"], u.media);
    counts
}
