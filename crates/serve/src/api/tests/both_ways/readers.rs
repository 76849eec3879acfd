//! What readers have when a stream has ended, and the same of a whole body.

use crate::api::recorded::data;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Adds a text to another one.
fn append(to: &mut Value, text: &Value) {
    let more = text.as_str().unwrap_or_default();
    *to = json!(format!("{}{more}", to.as_str().unwrap_or_default()));
}

/// Adds a list to another one.
fn extend(to: &mut Value, list: &Value) {
    let mut all = to.as_array().cloned().unwrap_or_default();
    all.extend(list.as_array().into_iter().flatten().cloned());
    *to = json!(all);
}

/// Without the fields that differ from request to request.
fn without(mut value: Value, names: &[&str]) -> Value {
    if let Value::Object(map) = &mut value {
        map.retain(|name, _| !names.contains(&name.as_str()));
    }
    value
}

/// The choices of OpenAI's chunks by their index, each grown by `grow`, and the usage of the last chunk.
fn choices(stream: &str, grow: fn(&mut Value, &Value)) -> Value {
    let mut choices: BTreeMap<u64, Value> = BTreeMap::new();
    let (mut usage, mut timings) = (Value::Null, Value::Null);
    for chunk in data(stream) {
        for choice in chunk["choices"].as_array().expect("choices") {
            let index = choice["index"].as_u64().expect("an index");
            grow(choices.entry(index).or_insert(Value::Null), choice);
            if index == 0 && !chunk["timings"].is_null() {
                timings = chunk["timings"].clone();
            }
        }
        if !chunk["usage"].is_null() {
            usage = chunk["usage"].clone();
        }
    }
    json!({ "choices": choices.into_values().collect::<Vec<_>>(), "usage": usage, "timings": timings })
}

/// A whole body's choices, each as `seen` has it.
fn bodies(body: &Value, seen: fn(&Value) -> Value) -> Value {
    let choices: Vec<Value> = body["choices"].as_array().expect("choices").iter().map(seen).collect();
    json!({ "choices": choices, "usage": body["usage"], "timings": body["timings"] })
}

pub fn chat(stream: &str) -> Value {
    choices(stream, |to, choice| {
        let delta = &choice["delta"];
        append(&mut to["content"], &delta["content"]);
        append(&mut to["reasoning"], &delta["reasoning_content"]);
        extend(&mut to["tokens"], &choice["token_ids"]);
        extend(&mut to["logprobs"], &choice["logprobs"]["content"]);
        extend(&mut to["calls"], &Value::Null);
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            let calls = to["calls"].as_array_mut().expect("a list");
            if piece.get("id").is_some() {
                assert_eq!(piece["index"], calls.len());
                calls.push(without(piece.clone(), &["index"]));
            } else {
                let call = &mut calls[piece["index"].as_u64().expect("an index") as usize];
                append(&mut call["function"]["arguments"], &piece["function"]["arguments"]);
            }
        }
        assert!(to["finish"].is_null(), "nothing follows an end");
        to["finish"] = choice["finish_reason"].clone();
    })
}

pub fn chat_seen(body: &Value) -> Value {
    bodies(body, |choice| {
        let message = &choice["message"];
        let mut seen = json!({ "finish": choice["finish_reason"] });
        append(&mut seen["content"], &message["content"]);
        append(&mut seen["reasoning"], &message["reasoning_content"]);
        extend(&mut seen["tokens"], &choice["token_ids"]);
        extend(&mut seen["logprobs"], &choice["logprobs"]["content"]);
        extend(&mut seen["calls"], &message["tool_calls"]);
        seen
    })
}

const LISTS: [&str; 4] = ["tokens", "token_logprobs", "top_logprobs", "text_offset"];

pub fn completion(stream: &str) -> Value {
    let joined = choices(stream, |to, choice| {
        append(&mut to["text"], &choice["text"]);
        extend(&mut to["ids"], &choice["token_ids"]);
        LISTS.iter().for_each(|name| extend(&mut to[*name], &choice["logprobs"][*name]));
        to["finish"] = choice["finish_reason"].clone();
    });
    joined["choices"].as_array().expect("choices").iter().for_each(offsets_are_those_of_the_text);
    joined
}

/// Each token's text stands in the text where its offset says.
fn offsets_are_those_of_the_text(choice: &Value) {
    let text: Vec<char> = choice["text"].as_str().expect("a text").chars().collect();
    let tokens = choice["tokens"].as_array().into_iter().flatten();
    for (token, offset) in tokens.zip(choice["text_offset"].as_array().into_iter().flatten()) {
        let rest: String = text[offset.as_u64().expect("a number") as usize..].iter().collect();
        let token = token.as_str().expect("a text");
        // Special tokens have no text, and a part of a character is none by itself.
        let visible = !token.starts_with('<') && !token.contains(char::REPLACEMENT_CHARACTER);
        let there = rest.starts_with(token) || rest.starts_with(token.trim_start());
        assert!(!visible || rest.is_empty() || there, "{token:?} does not begin {rest:?}: {choice}");
    }
}

pub fn completion_seen(body: &Value) -> Value {
    bodies(body, |choice| {
        let mut seen = json!({ "text": choice["text"], "finish": choice["finish_reason"] });
        extend(&mut seen["ids"], &choice["token_ids"]);
        LISTS.iter().for_each(|name| extend(&mut seen[*name], &choice["logprobs"][*name]));
        seen
    })
}

/// What a client's own sum of the events is, which the last event must say too.
pub fn response(stream: &str) -> Value {
    let events = data(stream);
    let mut items: Vec<Value> = vec![];
    for event in &events {
        let at = event["output_index"].as_u64().unwrap_or(0) as usize;
        match event["type"].as_str().expect("a type") {
            "response.output_item.added" => {
                assert_eq!(at, items.len());
                items.push(event["item"].clone());
            }
            "response.content_part.added" => extend(&mut items[at]["content"], &json!([event["part"]])),
            "response.output_text.delta" | "response.reasoning_text.delta" => {
                assert_ne!(event["delta"], "", "an empty delta says nothing");
                append(&mut items[at]["content"][0]["text"], &event["delta"]);
                if event.get("logprobs").is_some() {
                    extend(&mut items[at]["content"][0]["logprobs"], &event["logprobs"]);
                }
            }
            "response.function_call_arguments.delta" => append(&mut items[at]["arguments"], &event["delta"]),
            "response.output_item.done" => {
                items[at]["status"] = event["item"]["status"].clone();
                assert_eq!(event["item"], items[at]);
            }
            _ => {}
        }
    }
    let last = &events[events.len() - 1]["response"];
    assert_eq!(last["output"], json!(items));
    response_seen(last)
}

pub fn response_seen(body: &Value) -> Value {
    let mut body = without(body.clone(), &["id", "created_at"]);
    for item in body["output"].as_array_mut().expect("items") {
        *item = without(item.take(), &["id"]);
    }
    body
}

pub fn message(stream: &str) -> Value {
    let events = data(stream);
    let mut message = events[0]["message"].clone();
    let mut json = String::new();
    for event in &events {
        let at = event["index"].as_u64().unwrap_or(0) as usize;
        match event["type"].as_str().expect("a type") {
            "content_block_start" => {
                assert_eq!(message["content"].as_array().map(Vec::len), Some(at));
                extend(&mut message["content"], &json!([event["content_block"]]));
                json.clear();
            }
            "content_block_delta" => {
                let (delta, block) = (&event["delta"], &mut message["content"][at]);
                for name in ["text", "thinking", "signature"] {
                    if delta.get(name).is_some() {
                        append(&mut block[name], &delta[name]);
                    }
                }
                json += delta["partial_json"].as_str().unwrap_or_default();
            }
            "content_block_stop" if message["content"][at]["type"] == "tool_use" => {
                message["content"][at]["input"] = serde_json::from_str(&json).unwrap_or(json!({}));
            }
            "message_delta" => {
                for (name, value) in event["delta"].as_object().expect("an object") {
                    message[name] = value.clone();
                }
                message["usage"] = event["usage"].clone();
            }
            _ => {}
        }
    }
    message_seen(&message)
}

pub fn message_seen(body: &Value) -> Value {
    let mut body = without(body.clone(), &["id"]);
    for block in body["content"].as_array_mut().expect("blocks") {
        *block = without(block.take(), &["signature"]);
    }
    body
}

/// Lines of Ollama's.
pub fn lines(stream: &str) -> Value {
    let lines: Vec<Value> = stream.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let mut all = Value::Null;
    for line in &lines {
        append(&mut all["text"], &line["response"]);
        append(&mut all["text"], &line["message"]["content"]);
        append(&mut all["thinking"], &line["thinking"]);
        append(&mut all["thinking"], &line["message"]["thinking"]);
        extend(&mut all["calls"], &line["message"]["tool_calls"]);
        extend(&mut all["logprobs"], &line["logprobs"]);
    }
    let done = without(lines[lines.len() - 1].clone(), &["response", "message", "thinking", "logprobs"]);
    all["done"] = without(done, &["created_at", "total_duration"]);
    all
}

pub fn line_seen(body: &Value) -> Value {
    lines(&body.to_string())
}

pub fn native(stream: &str) -> Value {
    let mut bodies: BTreeMap<u64, Value> = BTreeMap::new();
    for mut chunk in data(stream) {
        let index = chunk["index"].as_u64().expect("an index");
        let body = bodies.entry(index).or_insert(json!({}));
        append(&mut body["content"], &chunk["content"]);
        extend(&mut body["tokens"], &chunk["tokens"]);
        extend(&mut body["completion_probabilities"], &chunk["completion_probabilities"]);
        if chunk["stop"] == true {
            let Value::Object(rest) = chunk.take() else { panic!() };
            let body = body.as_object_mut().expect("an object");
            let grown: Map<String, Value> = std::mem::take(body);
            body.extend(rest);
            body.extend(grown);
        }
    }
    json!(bodies.into_values().collect::<Vec<_>>())
}

pub fn native_seen(body: &Value) -> Value {
    let list = if body.is_array() { body.clone() } else { json!([body]) };
    let seen = list.as_array().expect("a list").iter().map(|body| {
        let mut body = body.clone();
        extend(&mut body["completion_probabilities"], &Value::Null);
        body
    });
    seen.collect()
}
