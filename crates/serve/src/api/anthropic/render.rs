//! Messages as Anthropic writes them.

use super::words::{stop_reason, stop_sequence, tool_id, tool_use, usage};
use crate::{
    dialect::Dialect,
    error::ApiError,
    run::{
        AnswerBlock, AnswerDelta, BlockKind, ChoiceEnd, DeltaPart, Frames, Render, Started, TokenUsage,
        WholeAnswer, WholeChoice, ids,
    },
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Writes one message.
pub struct MessageRenderer {
    id: String,
    model: String,
    request: Arc<str>,
    /// The block that is being written.
    open: Option<OpenBlock>,
    /// Blocks that have begun.
    blocks: usize,
}

/// Kinds of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenBlock {
    Thinking,
    Text,
    ToolUse,
}

impl MessageRenderer {
    /// A renderer of the answer of `model` to a request.
    pub fn new(model: &str, request: &Arc<str>) -> MessageRenderer {
        MessageRenderer {
            id: ids::fresh("msg_"),
            model: model.to_owned(),
            request: request.clone(),
            open: None,
            blocks: 0,
        }
    }

    fn message(&self, content: Vec<Value>, end: Option<&ChoiceEnd>, counts: &TokenUsage) -> Value {
        json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": end.and_then(|e| stop_reason(&e.why)),
            "stop_sequence": end.and_then(|e| stop_sequence(&e.why)),
            "usage": usage(counts),
        })
    }

    /// Begins a block, unless one of this kind is open.
    fn block(&mut self, kind: OpenBlock, content: Value, out: &mut Frames) {
        if self.open == Some(kind) && kind != OpenBlock::ToolUse {
            return;
        }
        self.close(out);
        let start = json!({"type": "content_block_start", "index": self.blocks, "content_block": content});
        out.event("content_block_start", &start);
        self.open = Some(kind);
        self.blocks += 1;
    }

    fn add(&self, delta: Value, out: &mut Frames) {
        let index = self.blocks.saturating_sub(1);
        let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
        out.event("content_block_delta", &delta);
    }

    fn close(&mut self, out: &mut Frames) {
        let Some(kind) = self.open.take() else { return };
        if kind == OpenBlock::Thinking {
            self.add(json!({"type": "signature_delta", "signature": self.id}), out);
        }
        let stop = json!({"type": "content_block_stop", "index": self.blocks - 1});
        out.event("content_block_stop", &stop);
    }

    fn finish(&mut self, end: &ChoiceEnd, out: &mut Frames) {
        self.close(out);
        let delta = json!({
            "stop_reason": stop_reason(&end.why),
            "stop_sequence": stop_sequence(&end.why),
        });
        let event = json!({"type": "message_delta", "delta": delta, "usage": usage(&end.usage)});
        out.event("message_delta", &event);
    }
}

impl Render for MessageRenderer {
    fn id(&self) -> &str {
        &self.id
    }

    fn begin(&mut self, started: &Started, out: &mut Frames) {
        let prompt = started.prompt_tokens.iter().sum();
        let counts = TokenUsage { prompt, ..TokenUsage::default() };
        let message = self.message(vec![], None, &counts);
        out.event("message_start", &json!({"type": "message_start", "message": message}));
        self.ping(out);
    }

    fn delta(&mut self, delta: &AnswerDelta, out: &mut Frames) {
        match &delta.part {
            DeltaPart::Reasoning(text) => {
                let empty = json!({"type": "thinking", "thinking": "", "signature": ""});
                self.block(OpenBlock::Thinking, empty, out);
                self.add(json!({"type": "thinking_delta", "thinking": text}), out);
            }
            DeltaPart::Text(text) => {
                self.block(OpenBlock::Text, json!({"type": "text", "text": ""}), out);
                self.add(json!({"type": "text_delta", "text": text}), out);
            }
            DeltaPart::ToolStart { id, name, .. } => {
                let empty = json!({"type": "tool_use", "id": tool_id(id), "name": name, "input": {}});
                self.block(OpenBlock::ToolUse, empty, out);
            }
            DeltaPart::ToolArguments { json, .. } => {
                self.add(json!({"type": "input_json_delta", "partial_json": json}), out);
            }
            DeltaPart::End(end) => self.finish(end, out),
            DeltaPart::Prompt { .. } | DeltaPart::Progress { .. } => {}
        }
    }

    fn end(&mut self, _usage: &TokenUsage, out: &mut Frames) {
        out.event("message_stop", &json!({"type": "message_stop"}));
    }

    fn error(&mut self, error: &ApiError, out: &mut Frames) {
        out.event("error", &error.body(Dialect::Anthropic, &self.request));
    }

    fn ping(&mut self, out: &mut Frames) {
        out.event("ping", &json!({"type": "ping"}));
    }

    fn whole(&mut self, answer: &WholeAnswer) -> Value {
        let choice = answer.choices.first();
        let block = |choice: &WholeChoice, block: &AnswerBlock| match block.kind {
            BlockKind::Reasoning => {
                json!({"type": "thinking", "thinking": choice.text_of(block), "signature": self.id})
            }
            BlockKind::Text => json!({"type": "text", "text": choice.text_of(block)}),
            BlockKind::Call(i) => choice.calls.get(i).map_or(Value::Null, tool_use),
        };
        let content = choice.iter().flat_map(|c| c.blocks.iter().map(move |b| block(c, b))).collect();
        self.message(content, choice.and_then(|c| c.end.as_ref()), &answer.usage)
    }
}

#[cfg(test)]
mod tests;
