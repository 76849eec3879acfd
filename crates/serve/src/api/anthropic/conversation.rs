//! Anthropic's conversations in OpenAI's shape, which templates read.

use crate::{
    body::{kind, typed},
    error::ApiError,
    media::{in_base64, joined, picture_part},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Where the file of a picture is. What it says of its type is not looked at: its bytes tell.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum PictureSource {
    Base64 { data: String },
    Url { url: String },
}

/// The messages of a conversation with its system prompt before them.
///
/// # Errors
/// When a message or a block is not what it should be, or is no text.
pub fn conversation(system: Option<Value>, messages: Vec<Value>) -> Result<Vec<Value>, ApiError> {
    let system = system.map(|content| texts(content, "system")).transpose()?.filter(|text| !text.is_empty());
    let mut turns: Vec<_> = system.iter().map(|text| json!({"role": "system", "content": text})).collect();
    for (i, message) in messages.into_iter().enumerate() {
        turn(message, &format!("messages[{i}]"), &mut turns)?;
    }
    Ok(turns)
}

/// One message: several of OpenAI's where it holds answers of tools.
fn turn(mut message: Value, path: &str, turns: &mut Vec<Value>) -> Result<(), ApiError> {
    if !message.is_object() {
        return Err(wrong(path, &message, "an object"));
    }
    let at = format!("{path}.content");
    let content = match message["content"].take() {
        Value::Null => return Err(ApiError::at(&at, format!("{at} is missing"))),
        content => content,
    };
    match message["role"].as_str() {
        Some("user") => user(content, &at, turns),
        Some("assistant") => assistant(content, &at).map(|turn| turns.push(turn)),
        Some("system") => {
            texts(content, &at).map(|text| turns.push(json!({"role": "system", "content": text})))
        }
        _ => {
            let at = format!("{path}.role");
            Err(ApiError::at(&at, format!("{at} must be one of user assistant system")))
        }
    }
}

/// Answers of tools come first: they belong to the calls of the message before.
fn user(content: Value, path: &str, turns: &mut Vec<Value>) -> Result<(), ApiError> {
    let mut said = vec![];
    let mut answered = false;
    for (at, mut block) in blocks(content, path)? {
        match block["type"].as_str() {
            Some("text" | "image") => said.push(part(block, &at)?),
            Some("tool_result") => {
                let id = block["tool_use_id"].as_str().ok_or_else(|| missing(&at, "tool_use_id"))?.to_owned();
                let result = match block["content"].take() {
                    Value::Null => "".into(),
                    result => seen(result, &format!("{at}.content"))?,
                };
                turns.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
                answered = true;
            }
            _ => return Err(no_text(&block, &at)),
        }
    }
    if !said.is_empty() || !answered {
        turns.push(json!({"role": "user", "content": joined(said)}));
    }
    Ok(())
}

fn assistant(content: Value, path: &str) -> Result<Value, ApiError> {
    let (mut said, mut thoughts, mut calls) = (vec![], vec![], vec![]);
    for (at, mut block) in blocks(content, path)? {
        match block["type"].as_str() {
            Some("text") => said.push(text(&block, &at)?),
            Some("thinking") => {
                thoughts.push(block["thinking"].as_str().ok_or_else(|| missing(&at, "thinking"))?.to_owned());
            }
            // Reasoning that only its own provider can read.
            Some("redacted_thinking") => {}
            Some("tool_use") => calls.push(call(&mut block, &at)?),
            _ => return Err(no_text(&block, &at)),
        }
    }
    let mut turn = json!({"role": "assistant", "content": said.join("\n")});
    if !thoughts.is_empty() {
        turn["reasoning_content"] = json!(thoughts.join("\n"));
    }
    if !calls.is_empty() {
        turn["tool_calls"] = json!(calls);
    }
    Ok(turn)
}

fn call(block: &mut Value, at: &str) -> Result<Value, ApiError> {
    let id = block["id"].as_str().ok_or_else(|| missing(at, "id"))?.to_owned();
    let name = block["name"].as_str().ok_or_else(|| missing(at, "name"))?.to_owned();
    let arguments = match block["input"].take() {
        Value::Object(input) => Value::Object(input),
        Value::Null => json!({}),
        other => return Err(wrong(&format!("{at}.input"), &other, "an object")),
    };
    Ok(json!({
        "id": id,
        "type": "function",
        "function": {"name": name, "arguments": arguments.to_string()},
    }))
}

/// Blocks with their paths; a text is one block.
fn blocks(content: Value, path: &str) -> Result<Vec<(String, Value)>, ApiError> {
    match content {
        Value::String(text) => Ok(vec![(path.to_owned(), json!({"type": "text", "text": text}))]),
        Value::Array(list) => {
            let named = |(i, block): (usize, Value)| match block.is_object() {
                true => Ok((format!("{path}[{i}]"), block)),
                false => Err(wrong(&format!("{path}[{i}]"), &block, "a block")),
            };
            list.into_iter().enumerate().map(named).collect()
        }
        other => Err(wrong(path, &other, "a text or a list of blocks")),
    }
}

/// A text, or the texts of blocks.
fn texts(content: Value, path: &str) -> Result<String, ApiError> {
    let texts = blocks(content, path)?.into_iter().map(|(at, block)| match block["type"].as_str() {
        Some("text") => text(&block, &at),
        _ => Err(no_text(&block, &at)),
    });
    Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

/// What blocks of text and pictures say.
fn seen(content: Value, path: &str) -> Result<Value, ApiError> {
    let parts = blocks(content, path)?.into_iter().map(|(at, block)| match block["type"].as_str() {
        Some("text" | "image") => part(block, &at),
        _ => Err(no_text(&block, &at)),
    });
    parts.collect::<Result<Vec<_>, _>>().map(joined)
}

/// A block of text or a picture as a part.
fn part(mut block: Value, at: &str) -> Result<Value, ApiError> {
    if block["type"] == "text" {
        return Ok(json!({"type": "text", "text": text(&block, at)?}));
    }
    let url = match typed(block["source"].take(), &format!("{at}.source"))? {
        PictureSource::Base64 { data } => in_base64(&data),
        PictureSource::Url { url } => url,
    };
    Ok(picture_part(at, url))
}

fn text(block: &Value, at: &str) -> Result<String, ApiError> {
    block["text"].as_str().map(str::to_owned).ok_or_else(|| missing(at, "text"))
}

fn missing(at: &str, name: &str) -> ApiError {
    ApiError::at(format!("{at}.{name}"), format!("{at}.{name} must be a text"))
}

fn wrong(at: &str, value: &Value, want: &str) -> ApiError {
    ApiError::at(at, format!("{at} is {}, but must be {want}", kind(value)))
}

/// A block of a kind that is not taken.
fn no_text(block: &Value, at: &str) -> ApiError {
    const KNOWN: [&str; 5] = ["image", "document", "search_result", "server_tool_use", "container_upload"];
    let kind = block["type"].as_str().filter(|k| KNOWN.contains(k)).unwrap_or("a block of another type");
    let text = format!(
        "{at} is {kind}, but text and the caller's own tools are taken, and pictures of users and tools"
    );
    ApiError::at(at, text)
}

/// Anthropic's tools in OpenAI's shape.
///
/// # Errors
/// When one has no name, or is a tool that only its provider can run.
pub fn tools(list: Vec<Value>) -> Result<Vec<Value>, ApiError> {
    let tool = |(i, mut tool): (usize, Value)| {
        let at = format!("tools[{i}]");
        if !tool.is_object() {
            return Err(wrong(&at, &tool, "an object"));
        }
        if !matches!(tool["type"].as_str(), None | Some("custom")) {
            let text = format!("{at}.type must be custom: tools of other providers cannot run here");
            return Err(ApiError::at(format!("{at}.type"), text));
        }
        let name = tool["name"].as_str().ok_or_else(|| missing(&at, "name"))?.to_owned();
        let mut function = Map::from_iter([("name".to_owned(), json!(name))]);
        if tool["description"].is_string() {
            function.insert("description".into(), tool["description"].take());
        }
        function.insert("parameters".into(), tool["input_schema"].take());
        if tool["strict"] == true {
            function.insert("strict".into(), json!(true));
        }
        Ok(json!({"type": "function", "function": function}))
    };
    list.into_iter().enumerate().map(tool).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_tools_come_before_the_text_of_their_turn() {
        let messages = json!([
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I look.", "citations": null},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "sky"}}]},
            {"role": "user", "content": [
                {"type": "text", "text": "and?", "cache_control": {"type": "ephemeral"}},
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "blue"}]}]},
        ]);
        let system = json!([{"type": "text", "text": "be"}, {"type": "text", "text": "brief"}]);
        let Value::Array(messages) = messages else { panic!() };
        let turns = conversation(Some(system), messages).unwrap();
        let call = json!({"id": "toolu_1", "type": "function",
            "function": {"name": "look", "arguments": "{\"at\":\"sky\"}"}});
        assert_eq!(
            json!(turns),
            json!([
                {"role": "system", "content": "be\nbrief"},
                {"role": "user", "content": "weather?"},
                {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "toolu_1", "content": "blue"},
                {"role": "user", "content": "and?"},
            ])
        );
    }

    #[test]
    fn pictures_stay_where_they_stand() {
        let image = |data: &str| json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}});
        let linked = json!({"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}});
        let said = json!({"type": "text", "text": "these"});
        let answer = json!({"type": "tool_result", "tool_use_id": "t", "content": [said, image("b")]});
        let message = json!({"role": "user", "content": [said, image("a"), answer, linked]});
        let part = |at: &str, url: &str| picture_part(at, url.to_owned());
        assert_eq!(
            json!(conversation(None, vec![message]).unwrap()),
            json!([
                {"role": "tool", "tool_call_id": "t", "content":
                    [said, part("messages[0].content[2].content[1]", "data:;base64,b")]},
                {"role": "user", "content": [
                    said,
                    part("messages[0].content[1]", "data:;base64,a"),
                    part("messages[0].content[3]", "https://example.org/a.png")]},
            ])
        );
    }

    #[test]
    fn what_is_wrong_is_named_by_its_place() {
        for (message, param) in [
            (json!(1), "messages[0]"),
            (json!({"role": "robot", "content": ""}), "messages[0].role"),
            (json!({"role": "user"}), "messages[0].content"),
            (json!({"role": "user", "content": 1}), "messages[0].content"),
            (json!({"role": "user", "content": [1]}), "messages[0].content[0]"),
            (json!({"role": "user", "content": [{"type": "text"}]}), "messages[0].content[0].text"),
            (json!({"role": "user", "content": [{"type": "image"}]}), "messages[0].content[0].source"),
            (
                json!({"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}),
                "messages[0].content[0].source.type",
            ),
            (
                json!({"role": "user", "content": [{"type": "image", "source": {"type": "base64"}}]}),
                "messages[0].content[0].source",
            ),
            (json!({"role": "user", "content": [{"type": "document"}]}), "messages[0].content[0]"),
            (
                json!({"role": "user", "content": [{"type": "tool_result"}]}),
                "messages[0].content[0].tool_use_id",
            ),
            (
                json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": 1}]}),
                "messages[0].content[0].input",
            ),
        ] {
            let error = conversation(None, vec![message.clone()]).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param), "{message}");
        }
    }

    #[test]
    fn tools_change_their_shape() {
        let schema = json!({"type": "object"});
        let list =
            vec![json!({"name": "look", "description": "d", "input_schema": schema, "cache_control": {}})];
        let shaped = json!([{"type": "function", "function": {"name": "look", "description": "d", "parameters": schema}}]);
        assert_eq!(json!(tools(list).unwrap()), shaped);
        let error = tools(vec![json!({"type": "bash_20250124", "name": "bash"})]).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("tools[0].type"));
    }
}
