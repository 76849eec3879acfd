//! A server as the one that answers in a conversation.

use super::{figures::Figures, server::RemoteServer};
use crate::{
    args::Wanted,
    chat::{Partner, Reply, ReplyEnd, Session},
    error::{CliError, Result},
    interrupt::{self, On},
    output::{self, note},
};
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
    /// Variables of the server's template.
    variables: Map<String, Value>,
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
        variables: Map<String, Value>,
    ) -> Result<ServerPartner> {
        let model = runtime.block_on(server.model(given))?;
        Ok(ServerPartner { runtime, server, model, variables, used: 0 })
    }

    fn body(&self, session: &Session, wanted: &Wanted) -> Value {
        let mut body = wanted.fields();
        NOT_FOR_CHAT.iter().for_each(|name| drop(body.remove(*name)));
        body.extend(self.model.iter().map(|name| ("model".to_owned(), json!(name))));
        if !self.variables.is_empty() {
            body.insert("chat_template_kwargs".to_owned(), Value::Object(self.variables.clone()));
        }
        body.insert("messages".to_owned(), Value::Array(session.window()));
        body.insert("stream".to_owned(), json!(true));
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        Value::Object(body)
    }

    /// Streams one answer to stdout. Dropping the connection is what tells the server to stop.
    async fn stream(&self, body: &Value) -> Result<(Reply, Figures)> {
        let mut figures = Figures::begin();
        let mut text = String::new();
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
                write_piece(&chunk["choices"][0]["delta"], &mut text, &mut figures)?;
            }
        }
        output::text("\n")?;
        Ok((Reply { text, ending, stats: figures.line() }, figures))
    }
}

/// Writes what a chunk adds to the answer. Reasoning is shown to people, in a fainter colour, and not to scripts.
fn write_piece(delta: &Value, text: &mut String, figures: &mut Figures) -> Result<()> {
    if let Some(thought) = delta["reasoning_content"].as_str().filter(|t| !t.is_empty()) {
        figures.piece();
        output::aside(thought)?;
    }
    if let Some(piece) = delta["content"].as_str().filter(|t| !t.is_empty()) {
        figures.piece();
        // White space before the first word is the template's affair, not the reader's.
        let shown = if text.is_empty() { piece.trim_start() } else { piece };
        text.push_str(shown);
        output::text(shown)?;
    }
    Ok(())
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
