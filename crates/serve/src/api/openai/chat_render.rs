//! Chat completions as OpenAI writes them.

use super::{
    chat_words::{content_logprobs, message},
    words::{AnswerHead, GrowingUsage, StreamUsage, finish_reason, usage},
};
use crate::{
    api::shared::timings,
    dialect::Dialect,
    error::ApiError,
    run::{
        AnswerDelta, DeltaPart, Ended, Frames, Render, Started, TokenUsage, WholeAnswer, WholeChoice, Wishes,
    },
};
use lamina::{Timings, Tokenizer};
use serde_json::{Value, json};

/// Writes chat completions.
pub struct ChatRenderer {
    head: AnswerHead,
    tokenizer: Option<Tokenizer>,
    logprobs: bool,
    token_ids: bool,
    stream_usage: StreamUsage,
    growing: GrowingUsage,
    /// Answers that have said who speaks.
    begun: Vec<bool>,
    timings: Option<Timings>,
}

impl ChatRenderer {
    /// A renderer of one request's answers.
    pub fn new(
        head: AnswerHead,
        tokenizer: Option<Tokenizer>,
        wishes: &Wishes,
        stream_usage: StreamUsage,
    ) -> ChatRenderer {
        ChatRenderer {
            head,
            tokenizer,
            logprobs: wishes.generate.sampling.logprobs.count.is_some(),
            token_ids: wishes.token_ids,
            stream_usage,
            growing: GrowingUsage::default(),
            begun: vec![],
            timings: None,
        }
    }

    fn chunk(&self, choices: Vec<Value>) -> Value {
        let mut chunk = self.head.object("chat.completion.chunk", choices);
        match self.stream_usage {
            StreamUsage::Never => {}
            StreamUsage::AtEnd => _ = chunk.insert("usage".into(), Value::Null),
            StreamUsage::Always => _ = chunk.insert("usage".into(), self.growing.value()),
        }
        Value::Object(chunk)
    }

    fn choice(&self, delta: &AnswerDelta, content: Value, finish: Option<&str>) -> Value {
        let told = self.logprobs && !delta.tokens.is_empty();
        let logprobs = told.then(|| content_logprobs(self.tokenizer.as_ref(), &delta.tokens));
        let mut choice = json!({
            "index": delta.choice,
            "delta": content,
            "logprobs": logprobs,
            "finish_reason": finish,
        });
        if self.token_ids {
            choice["token_ids"] = delta.tokens.iter().map(|t| t.id).collect();
        }
        choice
    }

    fn whole_choice(&self, index: usize, choice: &WholeChoice) -> Value {
        let logprobs = self.logprobs.then(|| content_logprobs(self.tokenizer.as_ref(), &choice.tokens));
        let finish = choice.end.as_ref().map_or("stop", |e| finish_reason(&e.why));
        let mut value = json!({
            "index": index,
            "message": message(choice),
            "logprobs": logprobs,
            "finish_reason": finish,
        });
        if self.token_ids {
            value["token_ids"] = choice.tokens.iter().map(|t| t.id).collect();
        }
        value
    }
}

/// What a piece adds to the message; none where it adds nothing.
fn content(part: &DeltaPart) -> Option<Value> {
    Some(match part {
        DeltaPart::Text(text) => json!({ "content": text }),
        DeltaPart::Reasoning(text) => json!({ "reasoning_content": text }),
        DeltaPart::ToolStart { call, id, name } => json!({ "tool_calls": [{
            "index": call, "id": id, "type": "function", "function": { "name": name, "arguments": "" } }] }),
        DeltaPart::ToolArguments { call, json } => {
            json!({ "tool_calls": [{ "index": call, "function": { "arguments": json } }] })
        }
        DeltaPart::End(_) => json!({}),
        DeltaPart::Prompt { .. } | DeltaPart::Progress { .. } => return None,
    })
}

impl Render for ChatRenderer {
    fn id(&self) -> &str {
        &self.head.id
    }

    fn begin(&mut self, started: &Started, _out: &mut Frames) {
        self.begun = vec![false; started.choices];
        self.growing.begin(started);
    }

    fn delta(&mut self, delta: &AnswerDelta, out: &mut Frames) {
        let Some(content) = content(&delta.part) else { return };
        self.growing.grow(delta.tokens.len());
        // Together with the first token: time to first token is told as it is.
        if !std::mem::replace(&mut self.begun[delta.choice], true) {
            let empty = AnswerDelta { tokens: vec![], ..delta.clone() };
            let first = self.choice(&empty, json!({ "role": "assistant", "content": "" }), None);
            out.data(&self.chunk(vec![first]));
        }
        let finish = match &delta.part {
            DeltaPart::End(end) => {
                self.timings.get_or_insert(end.timings);
                if end.why == Ended::Cancelled { None } else { Some(finish_reason(&end.why)) }
            }
            _ => None,
        };
        let mut chunk = self.chunk(vec![self.choice(delta, content, finish)]);
        if let DeltaPart::End(end) = &delta.part {
            chunk["timings"] = timings(end);
        }
        out.data(&chunk);
    }

    fn end(&mut self, total: &TokenUsage, out: &mut Frames) {
        if self.stream_usage != StreamUsage::Never {
            let mut chunk = self.head.object("chat.completion.chunk", vec![]);
            chunk.insert("usage".into(), usage(total));
            out.data(&chunk);
        }
        out.raw("data: [DONE]\n\n");
    }

    fn error(&mut self, error: &ApiError, out: &mut Frames) {
        out.data(&error.body(Dialect::OpenAi, ""));
        out.raw("data: [DONE]\n\n");
    }

    fn whole(&mut self, answer: &WholeAnswer) -> Value {
        let choices = answer.choices.iter().enumerate().map(|(i, c)| self.whole_choice(i, c)).collect();
        let mut body = self.head.object("chat.completion", choices);
        body.insert("usage".into(), usage(&answer.usage));
        if let Some(end) = answer.choices.first().and_then(|c| c.end.as_ref()) {
            body.insert("timings".into(), timings(end));
        }
        Value::Object(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::recorded::{data, streamed, whole};

    fn renderer() -> ChatRenderer {
        let head = AnswerHead::new("chatcmpl-", "tiny", "f");
        ChatRenderer::new(head, None, &Wishes::default(), StreamUsage::AtEnd)
    }

    #[test]
    fn pieces_of_a_stream_are_the_whole_message() {
        let stream = streamed(&mut renderer());
        assert!(stream.ends_with("data: [DONE]\n\n"));
        let chunks = data(&stream);
        let joined = |name: &str| -> String {
            chunks.iter().filter_map(|c| c["choices"][0]["delta"][name].as_str()).collect()
        };
        let calls: Vec<&Value> = chunks
            .iter()
            .map(|c| &c["choices"][0]["delta"]["tool_calls"][0])
            .filter(|c| !c.is_null())
            .collect();
        let body = whole(&mut renderer());
        let message = &body["choices"][0]["message"];
        assert_eq!((joined("content"), joined("reasoning_content")), ("Let me see.".into(), "Hm, so".into()));
        assert_eq!(
            (&message["content"], &message["reasoning_content"]),
            (&json!("Let me see."), &json!("Hm, so"))
        );
        assert_eq!(calls[0]["function"], json!({ "name": "now", "arguments": "" }));
        assert!(calls[1].get("id").is_none(), "the name and the id come once");
        let arguments: String = calls.iter().filter_map(|c| c["function"]["arguments"].as_str()).collect();
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], json!(arguments));
        assert_eq!(body["choices"][0]["finish_reason"], "tool_calls");
        assert_eq!(chunks[chunks.len() - 2]["choices"][0]["finish_reason"], "tool_calls");
        assert_eq!(chunks[chunks.len() - 1]["usage"], body["usage"]);
        assert_eq!(body["usage"]["completion_tokens_details"]["reasoning_tokens"], 2);
    }
}
