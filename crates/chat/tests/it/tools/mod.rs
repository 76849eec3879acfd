//! Answers taken apart: calls, reasoning and text of every format, whole and cut anywhere.

mod broken;
mod cuts;
mod formats;
mod fuzz;
mod reasoning;
mod templates;
mod writers;

use lamina_chat::{ChatFormat, ChatMessage, Parser, ParserOptions};
use serde_json::{Value, json};

/// A call: name and arguments.
type Call = (&'static str, Value);

/// The whole of an answer in this format, looked through as one text.
fn parse(format: &str, text: &str, tools: &[Value]) -> ChatMessage {
    let format = ChatFormat::named(format).unwrap();
    Parser::parse(format, &options(format, tools), text)
}

fn options<'a>(format: &ChatFormat, tools: &'a [Value]) -> ParserOptions<'a> {
    ParserOptions { tools, reasoning: Some(format.reasoning), seed: Some(1), ..ParserOptions::default() }
}

/// Tools with the types that the arguments of these calls have.
fn tools_of(calls: &[Call]) -> Vec<Value> {
    let kind = |value: &Value| match value {
        Value::String(_) => json!({ "type": "string" }),
        Value::Number(_) => json!({ "type": "number" }),
        Value::Bool(_) => json!({ "type": "boolean" }),
        Value::Null => json!({ "type": ["null", "integer"] }),
        Value::Array(_) => json!({ "type": "array" }),
        Value::Object(_) => json!({ "type": "object" }),
    };
    let tool = |(name, arguments): &Call| {
        let of = arguments.as_object().unwrap();
        let properties: Value = of.iter().map(|(key, value)| (key.clone(), kind(value))).collect();
        let parameters = json!({ "type": "object", "properties": properties });
        json!({ "type": "function", "function": { "name": name, "parameters": parameters } })
    };
    calls.iter().map(tool).collect()
}

/// Conversations: reasoning, text, calls.
fn conversations() -> Vec<(Option<&'static str>, Option<&'static str>, Vec<Call>)> {
    let weather = ("get_weather", json!({ "city": "Z\u{fc}rich", "days": 3 }));
    let now = ("now", json!({}));
    vec![
        (None, None, vec![weather.clone()]),
        (None, None, vec![now.clone()]),
        (None, Some("Let me see."), vec![weather.clone()]),
        (Some("The user wants\nthe weather."), None, vec![weather.clone()]),
        (Some("Two things."), Some("One moment."), vec![weather.clone(), now.clone()]),
        (None, None, vec![now, weather.clone(), weather]),
        (None, None, vec![("note", json!({ "text": "line one\n\n  line \"two\" \\ \u{1f600}\ttab" }))]),
        (None, None, vec![("flags", json!({ "on": true, "off": false, "none": null, "ratio": -1.5e-3 }))]),
        (
            None,
            None,
            vec![("deep", json!({ "o": { "l": [1, { "s": "x" }, []], "e": {} }, "a": [true, "b"] }))],
        ),
        (
            None,
            None,
            vec![("marks", json!({ "text": "[1] {2} <b>x</b> `tick` 'quote'; to=me, >>> [ARGS] }" }))],
        ),
        (None, None, vec![("edges", json!({ "empty": "", "space": " a ", "number": "12", "word": "true" }))]),
        (
            None,
            Some("Many."),
            vec![
                ("a.b-c_d", json!({ "k": 1 })),
                ("a.b-c_d", json!({ "k": 2 })),
                ("a.b-c_d", json!({ "k": 3 })),
                ("a.b-c_d", json!({ "k": 4 })),
            ],
        ),
        (None, None, vec![("long", json!({ "text": "word ".repeat(200).trim_end() }))]),
        (None, None, vec![("words", json!({ "text": "naïve 你好 \u{1f600} e\u{301} \u{5e9}\u{5dc}" }))]),
        (None, None, vec![("code", json!({ "text": "if a != b && c { return \"x\\n\"; } // [y]" }))]),
        (None, None, vec![("lines", json!({ "items": ["one", "two words", ""], "more": [[1, 2], [3]] }))]),
        (
            None,
            None,
            vec![("numbers", json!({ "zero": 0, "less": -7, "big": 12345678901234u64, "small": 0.25 }))],
        ),
        (
            None,
            None,
            vec![("path", json!({ "at": "C:\\dir\\file.txt", "mode": "rw-r--r--", "tags": ["a=b", "c:d"] }))],
        ),
        (Some("One.\n\nTwo: {maybe}."), Some("Here it is:\n- a\n- b"), vec![("now", json!({}))]),
    ]
}
