//! POST /api/chat.

use super::{
    answer_render::{AnswerForm, AnswerRenderer},
    fields::CHAT,
    request::{keep_alive, thinking, unloads, wishes, with_images},
    words::ReplyHead,
};
use crate::{
    call::{ChatTurn, HttpCall, json_response},
    error::ApiError,
    run::AnswerJob,
};
use axum::response::Response;
use serde_json::{Value, json};

/// The handler.
pub async fn chat(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&CHAT).await?;
    let lease = call.model(&mut body).await?;
    let messages: Vec<Value> = body.take("messages")?.unwrap_or_default();
    let head = ReplyHead::new(lease.name());
    if messages.is_empty() {
        let reason = if unloads(keep_alive(&mut body, &lease)?) { "unload" } else { "load" };
        let mut object = head.loaded(reason);
        object.insert("message".to_owned(), json!({"role": "assistant", "content": ""}));
        call.finish(body);
        return Ok(json_response(&Value::Object(object)));
    }
    let tools = body.take::<Vec<Value>>("tools")?.filter(|tools| !tools.is_empty());
    if let Some(i) = tools.iter().flatten().position(|tool| !tool["function"]["name"].is_string()) {
        let at = format!("tools[{i}].function.name");
        return Err(ApiError::at(&at, format!("{at} must be a text")));
    }
    let stream = body.take("stream")?.unwrap_or(true);
    let (reasoning, variables) = thinking(&mut body)?;
    let wishes = wishes(&call, &mut body, &lease)?;
    let messages = messages.into_iter().enumerate().map(turn).collect::<Result<_, _>>()?;
    call.finish(body);
    let tokenizer = wishes.generate.sampling.logprobs.count.and(lease.live.model.tokenizer().cloned());
    let turn = ChatTurn { messages, tools, reasoning, variables, path: "messages", ..ChatTurn::default() };
    let prompt = call.chat(&lease, turn).await?;
    let job = AnswerJob { lease, prompts: vec![prompt.prompt], wishes, split: prompt.split };
    call.answer(job, stream, AnswerRenderer::new(AnswerForm::Chat, head, tokenizer)).await
}

/// A message in OpenAI's shape: calls have ids there, and reasoning another name.
fn turn((i, mut message): (usize, Value)) -> Result<Value, ApiError> {
    let path = format!("messages[{i}]");
    let Value::Object(map) = &mut message else {
        return Err(ApiError::at(&path, format!("{path} must be an object")));
    };
    let images = map.shift_remove("images");
    let said = map.get_mut("content").map(Value::take).unwrap_or_default();
    let said = with_images(said, images, &format!("{path}.images"))?;
    if !said.is_null() {
        map.insert("content".to_owned(), said);
    }
    if let Some(thinking) = map.shift_remove("thinking") {
        map.insert("reasoning_content".to_owned(), thinking);
    }
    if let Some(name) = map.shift_remove("tool_name") {
        map.insert("name".to_owned(), name);
    }
    if let Some(Value::Array(calls)) = map.get_mut("tool_calls") {
        for (n, call) in calls.iter_mut().enumerate() {
            complete(call, i, n);
        }
    }
    Ok(message)
}

/// Gives a call the fields that templates read and these clients do not send.
fn complete(call: &mut Value, message: usize, n: usize) {
    let Value::Object(map) = call else { return };
    map.entry("id").or_insert_with(|| json!(format!("call_{message}_{n}")));
    map.entry("type").or_insert_with(|| json!("function"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::picture_part;

    #[test]
    fn messages_change_their_shape() {
        let call = json!({"function": {"name": "look", "arguments": {"at": "sky"}}});
        let message = json!({"role": "assistant", "content": "", "thinking": "hm", "images": null, "tool_calls": [call]});
        let shaped = turn((3, message)).unwrap();
        assert_eq!(shaped["reasoning_content"], "hm");
        assert_eq!(shaped["tool_calls"][0]["id"], "call_3_0");
        assert_eq!(shaped["tool_calls"][0]["type"], "function");
        assert!(shaped.get("images").is_none() && shaped.get("thinking").is_none());
        let answer = turn((4, json!({"role": "tool", "content": "blue", "tool_name": "look"}))).unwrap();
        assert_eq!(answer, json!({"role": "tool", "content": "blue", "name": "look"}));
        let seen = turn((0, json!({"role": "user", "content": "what?", "images": ["AAAA"]}))).unwrap();
        let picture = picture_part("messages[0].images[0]", "data:;base64,AAAA".to_owned());
        assert_eq!(seen["content"], json!([picture, {"type": "text", "text": "what?"}]));
        let error = turn((0, json!({"role": "user", "content": "", "images": [7]}))).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("messages[0].images[0]"));
    }
}
