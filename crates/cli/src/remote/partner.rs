//! A server as the one that answers in a conversation.

use super::{figures::Figures, server::RemoteServer};
use crate::{
    args::Wanted,
    chat::{
        AnswerPrinter, Partner, Session,
        partner::{Reply, ReplyEnd},
    },
    error::{CliError, Result},
    interrupt::{self, On},
    output::note,
};
use lamina::Delta;
use serde_json::{Map, Value, json};
use std::{future::Future, pin::pin, time::Duration};
use tokio::runtime::Runtime;

/// How long a Ctrl-C may wait.
const GLANCE: Duration = Duration::from_millis(50);
/// Words of servers for a prompt that is longer than the context.
const TOO_LONG: [&str; 2] = ["context_length_exceeded", "exceed_context_size_error"];
/// Of completions only: conversations have these in other forms, and show them nowhere.
const NOT_FOR_CHAT: [&str; 1] = ["logprobs"];

/// A server's model.
#[derive(Debug)]
pub struct ServerPartner {
    runtime: Runtime,
    server: RemoteServer,
    model: Option<String>,
    /// Tools, reasoning and variables of the template.
    fields: Map<String, Value>,
    /// Tokens of the last request and its answer.
    used: usize,
}

impl ServerPartner {
    /// The model `given` of `server`, or its first one.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub fn new(
        runtime: Runtime,
        server: RemoteServer,
        given: Option<String>,
        fields: Map<String, Value>,
    ) -> Result<ServerPartner> {
        let model = runtime.block_on(server.model(given))?;
        Ok(ServerPartner { runtime, server, model, fields, used: 0 })
    }

    fn body(&self, session: &Session, wanted: &Wanted) -> Value {
        let mut body = wanted.fields();
        NOT_FOR_CHAT.iter().for_each(|name| drop(body.remove(*name)));
        body.extend(self.model.iter().map(|name| ("model".to_owned(), json!(name))));
        body.extend(self.fields.clone());
        body.insert("messages".to_owned(), Value::Array(session.window()));
        body.insert("stream".to_owned(), json!(true));
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        Value::Object(body)
    }

    /// Streams one answer to stdout. Dropping the connection is what tells the server to stop.
    async fn stream(&self, body: &Value) -> Result<(Reply, Figures)> {
        let mut figures = Figures::begin();
        let mut printer = AnswerPrinter::default();
        let mut ending = ReplyEnd::Stopped;
        if let Some(events) = unless_interrupted(self.server.stream("/chat/completions", body)).await {
            let mut events = events?;
            while let Some(event) = unless_interrupted(events.next()).await {
                let Some(chunk) = event? else {
                    let finish = figures.finish.as_deref().ok_or_else(|| events.cut_off())?;
                    ending = if finish == "length" {
                        ReplyEnd::Limit("ended at its limit")
                    } else {
                        ReplyEnd::Complete
                    };
                    break;
                };
                figures.take(&chunk);
                for delta in deltas(&chunk["choices"][0]["delta"]) {
                    figures.piece();
                    printer.push(delta)?;
                }
            }
        }
        printer.finish()?;
        let (text, calls) = (printer.text().to_owned(), printer.calls());
        Ok((Reply { text, calls, ending, stats: figures.line() }, figures))
    }
}

/// What a chunk adds to the answer.
fn deltas(delta: &Value) -> Vec<Delta> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let mut out: Vec<Delta> = text(&delta["reasoning_content"]).map(Delta::Reasoning).into_iter().collect();
    out.extend(text(&delta["content"]).map(Delta::Content));
    for call in delta["tool_calls"].as_array().into_iter().flatten() {
        let index = call["index"].as_u64().unwrap_or(0) as usize;
        let function = &call["function"];
        if let Some(name) = text(&function["name"]) {
            out.push(Delta::ToolStart { index, id: text(&call["id"]).unwrap_or_default(), name });
        }
        out.extend(text(&function["arguments"]).map(|text| Delta::ToolArguments { index, text }));
    }
    out
}

impl Partner for ServerPartner {
    fn about(&self) -> Vec<String> {
        let model = self.model.as_deref().unwrap_or("its own model");
        vec![format!("{model} at {}", self.server.url())]
    }

    fn answer(&mut self, session: &mut Session, wanted: &Wanted) -> Result<Reply> {
        loop {
            interrupt::set(On::Catch);
            let done = self.runtime.block_on(self.stream(&self.body(session, wanted)));
            interrupt::set(On::Hint);
            match done {
                Ok((reply, figures)) => {
                    self.used = figures.prompt_tokens().unwrap_or(0) + figures.completion_tokens();
                    return Ok(reply);
                }
                Err(e) if is_too_long(&e) && session.drop_oldest() => {
                    note("the server's context is full: the oldest turn is dropped");
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn count(&self, session: &Session) -> Result<(usize, Option<usize>)> {
        Ok((if session.len() == 0 { 0 } else { self.used }, None))
    }
}

fn is_too_long(e: &CliError) -> bool {
    matches!(e, CliError::Refused { code: Some(code), .. } if TOO_LONG.contains(&code.as_str()))
}

/// What `work` gives, or nothing after a Ctrl-C.
async fn unless_interrupted<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    while !interrupt::hit() {
        if let Ok(done) = tokio::time::timeout(GLANCE, work.as_mut()).await {
            return Some(done);
        }
    }
    None
}
