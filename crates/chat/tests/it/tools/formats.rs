//! Conversations in every format, read back.

use lamina_chat::ChatFormat;
use serde_json::Value;

use super::{Call, conversations, parse, tools_of, writers};

/// The answer of a conversation in a format; None where the format cannot have it.
pub fn answer(
    format: &ChatFormat,
    reasoning: Option<&str>,
    content: Option<&str>,
    calls: &[Call],
) -> Option<String> {
    let calls_text = writers::write(format.name, calls)?;
    let marks = format.reasoning;
    match format.name {
        // The answer is the call, or text.
        "llama3" | "pythonic" if content.is_some() => None,
        "harmony" => {
            let message = |channel: &str, text: &str| {
                format!("<|channel|>{channel}<|message|>{text}<|end|><|start|>assistant")
            };
            let thought = reasoning.map_or(String::new(), |text| message("analysis", text));
            let said = content.map_or(String::new(), |text| message("commentary", text));
            Some(thought + &said + &calls_text)
        }
        "functionary-v3.2" => {
            let said = content.map_or(String::new(), |text| format!("all\n{text}>>>"));
            reasoning.is_none().then(|| said + &calls_text)
        }
        "muse" => {
            let message =
                |to: &str, text: &str| format!(" to={to}<|message|>{text}<|eom|><|start|>assistant");
            let thought = reasoning.map_or(String::new(), |text| message("self", text));
            let said = content.map_or(String::new(), |text| message("user", text));
            Some(thought + &said + &calls_text)
        }
        _ => {
            let thought =
                reasoning.map_or(String::new(), |text| format!("{}{text}{}\n\n", marks.open, marks.close));
            let (open, close) = marks.answer;
            let said = content.map_or(String::new(), |text| format!("{open}{text}{close}\n"));
            Some(thought + &said + &calls_text)
        }
    }
}

/// What a format cannot tell apart.
fn alike(format: &str, value: &Value) -> Value {
    match value {
        // An empty tag is an empty text, list, object or nothing.
        Value::Array(items) if format == "minimax-m3" && items.is_empty() => "".into(),
        Value::Object(map) if format == "minimax-m3" && map.is_empty() => "".into(),
        Value::Null if format == "minimax-m3" => "null".into(),
        Value::Array(items) => items.iter().map(|item| alike(format, item)).collect(),
        Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), alike(format, v))).collect(),
        other => other.clone(),
    }
}

#[test]
fn calls_are_read_back_in_every_format() {
    let mut read = std::collections::BTreeMap::new();
    for format in ChatFormat::all() {
        for (reasoning, content, calls) in conversations() {
            let Some(text) = answer(format, reasoning, content, &calls) else { continue };
            let message = parse(format.name, &text, &tools_of(&calls));
            let context = format!("{}: {text}\n{message:#?}", format.name);
            assert_eq!(message.reasoning.as_deref(), reasoning, "{context}");
            assert_eq!(message.content.as_deref(), content, "{context}");
            assert_eq!(message.tool_calls.len(), calls.len(), "{context}");
            for (call, (name, arguments)) in message.tool_calls.iter().zip(&calls) {
                assert_eq!(&call.name, name, "{context}");
                assert!(call.complete, "{context}");
                let own: Value = serde_json::from_str(&call.arguments).expect(&context);
                if own != *arguments {
                    assert_eq!(alike(format.name, &own), alike(format.name, arguments), "{context}");
                }
            }
            *read.entry(format.name).or_insert(0) += 1;
        }
    }
    for format in ChatFormat::all().iter().filter(|format| format.name != "none") {
        assert!(read[format.name] >= 10, "{}: {}", format.name, read[format.name]);
    }
}

#[test]
fn ids_are_the_models_own_or_new_and_never_twice() {
    let (name, arguments) = ("now", serde_json::json!({}));
    let calls = vec![(name, arguments.clone()), (name, arguments)];
    for format in ChatFormat::all() {
        let Some(text) = writers::write(format.name, &calls) else { continue };
        let message = parse(format.name, &text, &[]);
        let ids: Vec<&str> = message.tool_calls.iter().map(|call| call.id.as_str()).collect();
        match format.name {
            "mistral" => assert_eq!(ids, ["abcDEF000", "abcDEF001"]),
            "kimi-k2" => assert_eq!(ids, ["functions.now:0", "functions.now:1"]),
            "command-r7b" => assert_eq!(ids, ["0", "1"]),
            "solar" => assert_eq!(ids, ["id0", "id1"]),
            "mistral-args" => assert!(ids.iter().all(|id| id.len() == 9)),
            _ => assert!(ids.iter().all(|id| id.starts_with("call_") && id.len() == 29), "{ids:?}"),
        }
        assert_ne!(ids[0], ids[1]);
    }
}

/// The data is whole: names are unique, and marks of templates are said.
#[test]
fn every_format_has_a_name_of_its_own() {
    let mut names: Vec<&str> = ChatFormat::all().iter().map(|format| format.name).collect();
    assert!(names.len() >= 38, "{}", names.len());
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ChatFormat::all().len());
    assert_eq!(ChatFormat::of_template("{{ messages }}").name, "none");
}
