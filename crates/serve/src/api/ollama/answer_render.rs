//! Answers as Ollama writes them: a JSON object a line.

use super::words::{ReplyHead, logprobs};
use crate::{
    dialect::Dialect,
    error::ApiError,
    run::{
        AnswerDelta, ChoiceEnd, ChosenToken, DeltaPart, Frames, Render, TokenUsage, ToolUse, WholeAnswer,
        WholeChoice,
    },
};
use lamina::{Timings, Tokenizer};
use serde_json::{Map, Value, json};

/// Whose answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerForm {
    /// `/api/generate`: `response` and `thinking`.
    Generate,
    /// `/api/chat`: a `message`.
    Chat,
}

/// Writes one answer.
pub struct AnswerRenderer {
    form: AnswerForm,
    head: ReplyHead,
    tokenizer: Option<Tokenizer>,
    /// A call whose arguments are not complete: these clients take whole calls only.
    call: Option<ToolUse>,
    /// Calls that were written.
    calls: usize,
    /// Tokens that no line has told of.
    held: Vec<ChosenToken>,
    end: Option<ChoiceEnd>,
}

/// What an object adds to an answer.
#[derive(Default)]
struct Addition<'a> {
    text: &'a str,
    thinking: &'a str,
    calls: &'a [ToolUse],
    /// Calls before these.
    first: usize,
}

impl AnswerRenderer {
    /// A renderer of the answer of `model`; with a tokenizer it tells logprobs.
    pub fn new(form: AnswerForm, head: ReplyHead, tokenizer: Option<Tokenizer>) -> AnswerRenderer {
        AnswerRenderer { form, head, tokenizer, call: None, calls: 0, held: vec![], end: None }
    }

    fn put(&self, piece: &Addition<'_>, object: &mut Map<String, Value>) {
        match self.form {
            AnswerForm::Generate => {
                object.insert("response".to_owned(), json!(piece.text));
                if !piece.thinking.is_empty() {
                    object.insert("thinking".to_owned(), json!(piece.thinking));
                }
            }
            AnswerForm::Chat => {
                let mut message = json!({"role": "assistant", "content": piece.text});
                if !piece.thinking.is_empty() {
                    message["thinking"] = json!(piece.thinking);
                }
                if !piece.calls.is_empty() {
                    message["tool_calls"] = (piece.first..).zip(piece.calls).map(tool_call).collect();
                }
                object.insert("message".to_owned(), message);
            }
        }
    }

    fn line(&mut self, piece: &Addition<'_>, out: &mut Frames) {
        let mut object = self.head.object(false);
        self.put(piece, &mut object);
        self.tell_tokens(&mut object);
        out.line(&object);
    }

    /// The logprobs of tokens that no line has told of.
    fn tell_tokens(&mut self, object: &mut Map<String, Value>) {
        let tokens = std::mem::take(&mut self.held);
        if self.tokenizer.is_some() && !tokens.is_empty() {
            object.insert("logprobs".to_owned(), logprobs(self.tokenizer.as_ref(), &tokens));
        }
    }

    /// Writes the call that is complete now.
    fn flush(&mut self, out: &mut Frames) {
        if let Some(call) = self.call.take() {
            let first = self.calls;
            self.calls += 1;
            self.line(&Addition { calls: &[call], first, ..Addition::default() }, out);
        }
    }

    fn counts(&self, end: Option<&ChoiceEnd>, usage: &TokenUsage) -> Map<String, Value> {
        let timings = end.map_or_else(Timings::default, |e| e.timings);
        self.head.counts(end.map(|e| &e.why), usage, &timings)
    }
}

/// A call; an answer that was cut in the middle of it has half an object.
fn tool_call((index, call): (usize, &ToolUse)) -> Value {
    let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap_or_default();
    json!({"id": call.id, "function": {"index": index, "name": call.name, "arguments": arguments}})
}

impl Render for AnswerRenderer {
    fn content_type(&self) -> &'static str {
        "application/x-ndjson"
    }

    fn delta(&mut self, delta: &AnswerDelta, out: &mut Frames) {
        if !matches!(delta.part, DeltaPart::ToolArguments { .. }) {
            self.flush(out);
        }
        self.held.extend_from_slice(&delta.tokens);
        match &delta.part {
            DeltaPart::Reasoning(text) => self.line(&Addition { thinking: text, ..Addition::default() }, out),
            DeltaPart::Text(text) => self.line(&Addition { text, ..Addition::default() }, out),
            DeltaPart::ToolStart { id, name, .. } => {
                self.call = Some(ToolUse { id: id.clone(), name: name.clone(), arguments: String::new() });
            }
            DeltaPart::ToolArguments { json, .. } => {
                self.call.iter_mut().for_each(|call| call.arguments.push_str(json));
            }
            DeltaPart::End(end) => self.end = Some((**end).clone()),
            DeltaPart::Prompt { .. } | DeltaPart::Progress { .. } => {}
        }
    }

    fn end(&mut self, usage: &TokenUsage, out: &mut Frames) {
        let mut object = self.counts(self.end.as_ref(), usage);
        self.put(&Addition::default(), &mut object);
        self.tell_tokens(&mut object);
        out.line(&object);
    }

    fn error(&mut self, error: &ApiError, out: &mut Frames) {
        out.line(&error.body(Dialect::Ollama, ""));
    }

    /// Readers of lines know no comments; an empty piece is what changes nothing.
    fn ping(&mut self, out: &mut Frames) {
        let mut object = self.head.object(false);
        self.put(&Addition::default(), &mut object);
        out.line(&object);
    }

    fn whole(&mut self, answer: &WholeAnswer) -> Value {
        let empty = WholeChoice::default();
        let choice = answer.choices.first().unwrap_or(&empty);
        let mut object = self.counts(choice.end.as_ref(), &answer.usage);
        let piece =
            Addition { text: &choice.text, thinking: &choice.reasoning, calls: &choice.calls, first: 0 };
        self.put(&piece, &mut object);
        if self.tokenizer.is_some() {
            object.insert("logprobs".to_owned(), logprobs(self.tokenizer.as_ref(), &choice.tokens));
        }
        Value::Object(object)
    }
}

#[cfg(test)]
mod tests;
