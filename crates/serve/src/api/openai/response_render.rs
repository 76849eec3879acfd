//! Responses as OpenAI writes them, whole and as events.

use super::{
    chat_words::message,
    response_items::{Echoing, ItemKind, OutputItem, item_status, items, logprobs, usage},
};
use crate::{
    app::App,
    dialect::Dialect,
    error::{ApiError, Cause},
    kept::KeptAnswer,
    log::RequestLog,
    run::{
        AnswerDelta, ChosenToken, DeltaPart, Ended, Frames, Render, Started, TokenUsage, WholeAnswer,
        WholeChoice,
    },
};
use lamina::Tokenizer;
use serde_json::{Value, json};
use std::sync::Arc;

/// Where an answer is kept, and what is kept with it.
pub struct Keeping {
    /// The server.
    pub app: App,
    /// What is remembered of the request.
    pub log: RequestLog,
    /// Who asked.
    pub tenant: Arc<str>,
    /// The conversation before the answer.
    pub messages: Vec<Value>,
    /// The items that it was asked with.
    pub input: Vec<Value>,
}

/// Writes responses.
pub struct ResponseRenderer {
    echoed: Echoing,
    tokenizer: Option<Tokenizer>,
    logprobs: bool,
    keeping: Option<Keeping>,
    sequence: u64,
    /// The answer so far, out of which the last event is made.
    answer: WholeAnswer,
    /// What stands at the end of the output and still grows.
    open: Option<OutputItem>,
    /// Items that are whole, or begun.
    output: Vec<Value>,
}

impl ResponseRenderer {
    /// A renderer of one request's answer.
    pub fn new(
        echoed: Echoing,
        tokenizer: Option<Tokenizer>,
        logprobs: bool,
        keeping: Option<Keeping>,
    ) -> ResponseRenderer {
        ResponseRenderer {
            echoed,
            tokenizer,
            logprobs,
            keeping,
            sequence: 0,
            answer: WholeAnswer::new(1),
            open: None,
            output: vec![],
        }
    }

    fn event(&mut self, name: &str, mut body: Value, out: &mut Frames) {
        body["type"] = json!(name);
        body["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        out.event(name, &body);
    }

    /// Where the open item stands, for its events.
    fn place(&self) -> Value {
        let id = self.open.as_ref().map_or("", |o| o.id.as_str());
        json!({ "item_id": id, "output_index": self.output.len().saturating_sub(1) })
    }

    /// Goes on with an item of this kind, or begins one.
    fn item(&mut self, kind: ItemKind, out: &mut Frames) {
        if self.open.as_ref().is_some_and(|o| o.kind == kind) {
            return;
        }
        self.close("completed", out);
        let open = OutputItem::new(kind);
        let (item, part) = (open.value("in_progress", json!([])), open.part(None));
        self.output.push(item.clone());
        self.open = Some(open);
        let index = self.output.len() - 1;
        self.event("response.output_item.added", json!({ "output_index": index, "item": item }), out);
        if let Some(part) = part {
            let body = merged(self.place(), json!({ "content_index": 0, "part": part }));
            self.event("response.content_part.added", body, out);
        }
    }

    /// Ends the open item.
    fn close(&mut self, status: &str, out: &mut Frames) {
        let place = self.place();
        let Some(open) = self.open.take() else { return };
        let (part, item) = (open.part(self.tokenizer.as_ref()), open.ended(self.tokenizer.as_ref(), status));
        let text = &open.text;
        let done = match &open.kind {
            ItemKind::Reasoning => {
                ("response.reasoning_text.done", json!({ "content_index": 0, "text": text }))
            }
            ItemKind::Message => {
                let logprobs = part.as_ref().map(|p| p["logprobs"].clone());
                (
                    "response.output_text.done",
                    json!({ "content_index": 0, "text": text, "logprobs": logprobs }),
                )
            }
            ItemKind::Call { name, .. } => {
                ("response.function_call_arguments.done", json!({ "arguments": text, "name": name }))
            }
        };
        self.event(done.0, merged(place.clone(), done.1), out);
        if let Some(part) = part {
            let body = merged(place, json!({ "content_index": 0, "part": part }));
            self.event("response.content_part.done", body, out);
        }
        let index = self.output.len() - 1;
        self.output[index] = item.clone();
        self.event("response.output_item.done", json!({ "output_index": index, "item": item }), out);
    }

    /// Text of the open item has come.
    fn grow(&mut self, name: &str, text: &str, tokens: &[ChosenToken], out: &mut Frames) {
        let tokens = if self.logprobs { tokens } else { &[] };
        let Some(open) = &mut self.open else { return };
        open.text.push_str(text);
        open.tokens.extend_from_slice(tokens);
        let mut body = merged(self.place(), json!({ "delta": text }));
        if name == "response.output_text.delta" {
            body["logprobs"] = logprobs(self.tokenizer.as_ref(), tokens);
        }
        if name != "response.function_call_arguments.delta" {
            body["content_index"] = json!(0);
        }
        self.event(name, body, out);
    }

    /// The whole body, and its status.
    fn body(&self, choice: &WholeChoice, output: Vec<Value>, total: &TokenUsage) -> (Value, &'static str) {
        let why = choice.end.as_ref().map(|e| &e.why);
        let (status, details) = match why {
            Some(Ended::MaxTokens | Ended::Context | Ended::Deadline) => {
                ("incomplete", json!({ "reason": "max_output_tokens" }))
            }
            Some(Ended::Cancelled) => ("cancelled", Value::Null),
            _ => ("completed", Value::Null),
        };
        let mut body = self.echoed.body(status, output);
        body["incomplete_details"] = details;
        body["usage"] = usage(total);
        (body, status)
    }

    fn keep(&mut self, body: &Value, choice: &WholeChoice) {
        let Some(Keeping { app, log, tenant, mut messages, input }) = self.keeping.take() else { return };
        log.entry().kept = Some(self.echoed.id.clone());
        messages.push(message(choice));
        app.kept.keep(&self.echoed.id, &tenant, KeptAnswer { body: body.clone(), messages, input });
    }
}

/// Two objects as one.
fn merged(mut a: Value, b: Value) -> Value {
    if let (Value::Object(a), Value::Object(b)) = (&mut a, b) {
        a.extend(b);
    }
    a
}

impl Render for ResponseRenderer {
    fn id(&self) -> &str {
        &self.echoed.id
    }

    fn begin(&mut self, _started: &Started, out: &mut Frames) {
        let body = self.echoed.body("in_progress", vec![]);
        self.event("response.created", json!({ "response": body }), out);
        self.event("response.in_progress", json!({ "response": body }), out);
    }

    fn delta(&mut self, delta: &AnswerDelta, out: &mut Frames) {
        match &delta.part {
            DeltaPart::Reasoning(text) => {
                self.item(ItemKind::Reasoning, out);
                self.grow("response.reasoning_text.delta", text, &[], out);
            }
            DeltaPart::Text(text) => {
                self.item(ItemKind::Message, out);
                self.grow("response.output_text.delta", text, &delta.tokens, out);
            }
            DeltaPart::ToolStart { id, name, .. } => {
                self.item(ItemKind::Call { id: id.clone(), name: name.clone() }, out);
            }
            DeltaPart::ToolArguments { json, .. } => {
                self.grow("response.function_call_arguments.delta", json, &[], out);
            }
            _ => {}
        }
        self.answer.push(delta.clone());
    }

    fn end(&mut self, total: &TokenUsage, out: &mut Frames) {
        let choice = self.answer.choices[0].clone();
        if choice.text.is_empty() && choice.calls.is_empty() {
            self.item(ItemKind::Message, out);
        }
        self.close(item_status(choice.end.as_ref().map(|e| &e.why)), out);
        let (body, status) = self.body(&choice, self.output.clone(), total);
        self.keep(&body, &choice);
        self.event(&format!("response.{status}"), json!({ "response": body }), out);
    }

    fn error(&mut self, error: &ApiError, out: &mut Frames) {
        let mut body = self.echoed.body("failed", self.output.clone());
        let shape = error.body(Dialect::OpenAi, "");
        let code = if error.cause == Cause::QueueFull { "rate_limit_exceeded" } else { "server_error" };
        body["error"] = json!({ "code": code, "message": shape["error"]["message"] });
        self.event("response.failed", json!({ "response": body }), out);
    }

    fn whole(&mut self, answer: &WholeAnswer) -> Value {
        let choice = &answer.choices[0];
        let items = items(choice, self.logprobs);
        let (last, cut) = (items.len() - 1, item_status(choice.end.as_ref().map(|e| &e.why)));
        let status = |i: usize| if i == last { cut } else { "completed" };
        let output = items.iter().enumerate().map(|(i, item)| item.ended(self.tokenizer.as_ref(), status(i)));
        let output = output.collect();
        let (body, _) = self.body(choice, output, &answer.usage);
        self.keep(&body, choice);
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::recorded::{data, streamed, whole},
        body::{Body, FieldTable},
        run::Wishes,
    };

    static NOTHING: FieldTable = FieldTable { name: "test", sampling: false, fields: &[], also: &[] };

    fn renderer() -> ResponseRenderer {
        let mut echoed = Echoing::new(&Body::parse(b"", &NOTHING, false).expect("an object"));
        echoed.settle(&Wishes::default(), "tiny");
        ResponseRenderer::new(echoed, None, false, None)
    }

    #[test]
    fn events_have_their_order() {
        let events = data(&streamed(&mut renderer()));
        let names: Vec<&str> = events.iter().filter_map(|e| e["type"].as_str()).collect();
        let want = "created in_progress \
            output_item.added content_part.added reasoning_text.delta reasoning_text.delta reasoning_text.done \
            content_part.done output_item.done \
            output_item.added content_part.added output_text.delta output_text.delta output_text.done \
            content_part.done output_item.done \
            output_item.added function_call_arguments.delta function_call_arguments.delta \
            function_call_arguments.done output_item.done completed";
        let want: Vec<String> = want.split_whitespace().map(|name| format!("response.{name}")).collect();
        assert_eq!(names, want);
        assert!(events.iter().enumerate().all(|(i, e)| e["sequence_number"] == i));
    }

    #[test]
    fn the_last_event_is_the_whole_body() {
        let (events, body) = (data(&streamed(&mut renderer())), whole(&mut renderer()));
        let mut streamed = events[events.len() - 1]["response"].clone();
        let mut body = body;
        // Ids and times differ from request to request.
        for response in [&mut streamed, &mut body] {
            response["id"] = Value::Null;
            response["created_at"] = Value::Null;
            response["output"].as_array_mut().expect("items").iter_mut().for_each(|i| i["id"] = Value::Null);
        }
        assert_eq!(streamed, body);
        assert_eq!(body["output"][2]["arguments"], "{\"zone\": \"UTC\"}");
    }
}
