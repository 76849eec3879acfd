//! A conversation as a prompt.

use super::{HttpCall, media::takes_media, pooled, tokens::PART};
use crate::{
    body::{json_of, kind},
    error::ApiError,
    media::{SentMedia, content, take_media},
    models::{Lease, LiveModel, TextRoom},
    run::{JobPrompt, PromptMedia, Split},
};
use lamina::{
    BegunChat, ChatAnswer, ChatOptions, MediaInputs, PreparedChat, ReasoningMode, Special, ToolChoice,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What a conversation consists of, in OpenAI's shape.
#[derive(Debug, Clone, Default)]
pub struct ChatTurn {
    /// The messages.
    pub messages: Vec<Value>,
    /// Tools that the model may call.
    pub tools: Option<Vec<Value>>,
    /// Variables of the template.
    pub variables: Map<String, Value>,
    /// Which tools it calls.
    pub choice: ToolChoice,
    /// One call at most.
    pub one_call: bool,
    /// Whether it reasons before it answers, and how long.
    pub reasoning: ReasoningMode,
    /// The prompt does not end where an answer begins.
    pub no_generation_prompt: bool,
    /// Path of the messages in the body, for errors.
    pub path: &'static str,
}

/// A prompt, and how the text of its answer is split.
#[derive(Clone, Default)]
pub struct PromptTokens {
    /// The prompt.
    pub prompt: JobPrompt,
    /// How the answer is split.
    pub split: Split,
}

/// Roles that messages may have.
const ROLES: &[&str] = &["system", "developer", "user", "assistant", "tool"];

/// The prompt of a conversation, made on the pool.
pub(super) async fn prompt(
    call: &HttpCall,
    lease: &Lease,
    mut turn: ChatTurn,
    room: TextRoom,
) -> Result<PromptTokens, ApiError> {
    let live = lease.live.clone();
    let (turn, sent) = pooled(move || messages(&live, &mut turn).map(|sent| (turn, sent))).await?;
    let (live, media) = (lease.live.clone(), call.media(lease, sent).await?);
    let mut step = pooled(move || begin(live, turn, media, room)?.advance()).await?;
    loop {
        match step {
            PromptStep::Done(prompt) => return Ok(prompt),
            PromptStep::More(begun) => step = pooled(move || begun.advance()).await?,
        }
    }
}

/// A conversation whose prompt becomes tokens in parts, between which others have the thread.
struct BegunPrompt {
    live: Arc<LiveModel>,
    chat: BegunChat,
    /// What the answer begins with.
    begun: Option<String>,
    media: Vec<PromptMedia>,
    path: &'static str,
}

enum PromptStep {
    More(Box<BegunPrompt>),
    Done(PromptTokens),
}

/// The text of a conversation, with a marker in the place of each picture and sound.
pub(super) fn rendered(live: &LiveModel, mut turn: ChatTurn) -> Result<String, ApiError> {
    let sent = messages(live, &mut turn)?;
    takes_media(live, &sent)?;
    let begun = begun_answer(&mut turn).unwrap_or_default();
    let options = options(live, &mut turn);
    let text = live.model.apply_chat_template(&turn.messages, &options);
    text.map(|text| text + &begun).map_err(|e| ApiError::from(e).of(turn.path))
}

fn begin(
    live: Arc<LiveModel>,
    mut turn: ChatTurn,
    media: Vec<PromptMedia>,
    room: TextRoom,
) -> Result<Box<BegunPrompt>, ApiError> {
    let long = room.check(text_bytes(&turn)).is_err();
    let begun = begun_answer(&mut turn);
    let prompt = JobPrompt { tokens: vec![], media };
    let MediaInputs { images, sounds } = prompt.inputs();
    let options = ChatOptions { images, sounds, ..options(&live, &mut turn) };
    if long {
        // Templates leave texts out: what this one makes of them decides.
        let rendered = live.model.apply_chat_template(&turn.messages, &options);
        let rendered = rendered.map_err(|e| ApiError::from(e).of(turn.path))?;
        room.check(rendered.len()).map_err(|e| e.of(turn.path))?;
    }
    let chat =
        live.model.begin_chat(&turn.messages, &options).map_err(|e| ApiError::from(e).of(turn.path))?;
    Ok(Box::new(BegunPrompt { live, chat, begun, media: prompt.media, path: turn.path }))
}

impl BegunPrompt {
    fn advance(mut self: Box<Self>) -> Result<PromptStep, ApiError> {
        let chat = self.chat.advance(PART).map_err(|e| ApiError::from(e).of(self.path))?;
        match chat {
            Some(chat) => self.finished(chat).map(PromptStep::Done),
            None => Ok(PromptStep::More(self)),
        }
    }

    fn finished(self: Box<Self>, mut chat: PreparedChat) -> Result<PromptTokens, ApiError> {
        chat.answer.keeps_reasoning = !self.live.splits_reasoning();
        if let Some(text) = self.begun {
            chat.tokens.extend(self.live.model.tokenize(&text, Special::NONE)?);
            chat.answer.begins_after(&chat.tokens);
        }
        Ok(PromptTokens {
            prompt: JobPrompt { tokens: chat.tokens, media: self.media },
            split: split_of(chat.answer),
        })
    }
}

fn split_of(answer: ChatAnswer) -> Split {
    // Where a call is required and there are no tools, whoever constrains the answer says so.
    let plain =
        answer.tools.is_empty() && !matches!(answer.choice, ToolChoice::Required | ToolChoice::Named(_));
    match answer.marks.is_none() && plain {
        true => Split::Plain,
        false => Split::Chat(Arc::new(answer)),
    }
}

/// Bytes of all texts of a conversation.
fn text_bytes(turn: &ChatTurn) -> usize {
    fn of(value: &Value) -> usize {
        match value {
            Value::String(text) => text.len(),
            Value::Array(list) => list.iter().map(of).sum(),
            Value::Object(map) => map.iter().map(|(name, value)| name.len() + of(value)).sum(),
            _ => 0,
        }
    }
    turn.messages.iter().chain(turn.tools.iter().flatten()).map(of).sum()
}

/// What the template is told, and what the answer must be.
fn options(live: &LiveModel, turn: &mut ChatTurn) -> ChatOptions {
    ChatOptions {
        no_generation_prompt: turn.no_generation_prompt,
        tool_choice: std::mem::take(&mut turn.choice),
        one_call: turn.one_call,
        reasoning: turn.reasoning,
        ..live.chat_options(turn.tools.take(), std::mem::take(&mut turn.variables))
    }
}

/// Refuses tools where the template would leave them out without a word.
fn takes_tools(live: &LiveModel, turn: &ChatTurn) -> Result<(), ApiError> {
    let given = turn.tools.as_ref().is_some_and(|t| !t.is_empty());
    match given && !live.template().contains("tools") {
        true => Err(ApiError::at("tools", "the template of this model takes no tools")),
        false => Ok(()),
    }
}

/// An answer that has begun: a last message of the assistant is continued. Its text stands where the answer would
/// begin, so what templates put after messages stays away.
fn begun_answer(turn: &mut ChatTurn) -> Option<String> {
    let last = turn.messages.last()?;
    let text = last["content"].as_str().filter(|t| !t.is_empty() && last["role"] == "assistant")?.to_owned();
    if last.get("tool_calls").is_some() || turn.no_generation_prompt || turn.messages.len() < 2 {
        return None;
    }
    turn.messages.pop();
    Some(text)
}

/// Checks the messages, and brings them into the form that templates read. Their pictures and sounds are taken out.
fn messages(live: &LiveModel, turn: &mut ChatTurn) -> Result<Vec<SentMedia>, ApiError> {
    takes_tools(live, turn)?;
    let path = turn.path;
    if turn.messages.is_empty() {
        return Err(ApiError::at(path, format!("{path} is empty: give at least one message")));
    }
    let knows_developers = live.template().contains("developer");
    for (i, message) in turn.messages.iter_mut().enumerate() {
        let path = format!("{path}[{i}]");
        let Value::Object(map) = message else {
            return Err(ApiError::at(&path, format!("{path} is {}, but must be an object", kind(message))));
        };
        check(map, &path)?;
        if map["role"] == "developer" && !knows_developers {
            map.insert("role".into(), "system".into());
        }
    }
    let media = take_media(&mut turn.messages);
    let says = matches!(turn.messages[0]["role"].as_str(), Some("system" | "developer"));
    if let Some(text) = live.system.as_ref().filter(|_| !says) {
        turn.messages.insert(0, json!({ "role": "system", "content": text }));
    }
    Ok(media)
}

fn check(message: &mut Map<String, Value>, path: &str) -> Result<(), ApiError> {
    let role = message.get("role").and_then(Value::as_str);
    let known = role.filter(|r| ROLES.contains(r)).ok_or_else(|| {
        ApiError::at(format!("{path}.role"), format!("{path}.role must be one of {}", ROLES.join(" ")))
    })?;
    let may_be_empty = known == "assistant";
    let content = match message.remove("content") {
        None | Some(Value::Null) if may_be_empty => Value::Null,
        None | Some(Value::Null) => {
            return Err(ApiError::at(format!("{path}.content"), format!("{path}.content is missing")));
        }
        Some(given) => content(given, &format!("{path}.content"))?,
    };
    // Templates ask whether there is text by its truth, and add it to other texts.
    message.insert("content".into(), if content.is_null() { "".into() } else { content });
    message.retain(|_, value| !value.is_null());
    match message.get_mut("tool_calls") {
        Some(calls) => arguments(calls, &format!("{path}.tool_calls")),
        None => Ok(()),
    }
}

/// Arguments of past calls: clients send JSON text, templates read objects.
fn arguments(calls: &mut Value, path: &str) -> Result<(), ApiError> {
    let wrong = |what: &Value| ApiError::at(path, format!("{path} is {}, but must be a list", kind(what)));
    let Value::Array(list) = calls else { return Err(wrong(calls)) };
    for (i, call) in list.iter_mut().enumerate() {
        let Some(function) = call.get_mut("function").and_then(Value::as_object_mut) else {
            let at = format!("{path}[{i}].function");
            return Err(ApiError::at(&at, format!("{at} is missing")));
        };
        if !function.get("name").is_some_and(Value::is_string) {
            let at = format!("{path}[{i}].function.name");
            return Err(ApiError::at(&at, format!("{at} is missing")));
        }
        let parsed = match function.get("arguments") {
            Some(Value::String(text)) => json_of(text.as_bytes(), path).ok().filter(Value::is_object),
            _ => None,
        };
        if let Some(parsed) = parsed {
            function.insert("arguments".into(), parsed);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn checked(message: Value) -> Result<Value, ApiError> {
        let Value::Object(mut map) = message else { panic!("an object") };
        check(&mut map, "messages[0]").map(|()| Value::Object(map))
    }

    #[test]
    fn parts_are_joined_and_arguments_read() {
        let parts = json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]});
        assert_eq!(checked(parts).unwrap()["content"], "a\nb");
        let call = json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]});
        let call = checked(call).unwrap();
        assert_eq!(call["tool_calls"][0]["function"]["arguments"], json!({"x": 1}));
        assert_eq!(call["content"], "");
    }

    #[test]
    fn what_is_wrong_is_named_by_its_place() {
        let param = |message: Value| checked(message).unwrap_err().param.unwrap();
        assert_eq!(param(json!({"content": "x"})), "messages[0].role");
        assert_eq!(param(json!({"role": "user"})), "messages[0].content");
        assert_eq!(param(json!({"role": "user", "content": 1})), "messages[0].content");
        let image = json!({"role": "user", "content": [{"type": "image_url", "image_url": {}}]});
        assert_eq!(param(image), "messages[0].content[0].image_url");
        let calls = json!({"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]});
        assert_eq!(param(calls), "messages[0].tool_calls[0].function");
    }
}
