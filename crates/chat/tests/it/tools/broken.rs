//! What only looks like a call, what is cut off, what is spelled a little wrong.

use lamina_chat::{ChatFormat, Parser};
use serde_json::json;

use super::{options, parse};

#[test]
fn what_only_looks_like_a_call_is_text() {
    for (format, text) in [
        ("hermes", "Write <tool_call> before and </tool_call> after it."),
        ("hermes", "<tool_call>\nnot JSON\n</tool_call>"),
        ("hermes", "<tool_call>\n{\"arguments\": {}}\n</tool_call>"),
        ("hermes", "<tool_call>\n{\"name\": \"x\", \"argu"),
        ("llama3", "{\"answer\": 42}"),
        ("llama3", "{\"name\": \"Bob\", \"age\": 3}"),
        ("llama3", "[1, 2]"),
        ("pythonic", "[1] is a citation, [see](x) a link"),
        ("pythonic", "[]"),
        ("pythonic", "[f(1)]"),
        ("mistral", "[TOOL_CALLS] are written so"),
        ("mistral-args", "[TOOL_CALLS] x"),
        ("functools", "functools is a module of Python; functools[0] is none"),
        ("qwen3-coder", "<tool_call>\n<function=x> and so on"),
        ("glm-4.5", "<tool_call>hello there</tool_call>"),
        ("kimi-k2", "<|tool_calls_section_begin|>nothing"),
        ("deepseek-v3", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function"),
        ("functionary-v3.1", "<function=x>text</function>"),
        ("command-r-plus", "Action: ```json\nnone```"),
        ("gemma4", "<|tool_call>call:x<tool_call|>"),
        ("muse", "go to=there, then back"),
        ("harmony", "no header at all"),
        ("functionary-v3.2", "Hello there, {you}"),
    ] {
        let message = parse(format, text, &[]);
        assert_eq!(message.content.as_deref(), Some(text), "{format}");
        assert!(message.tool_calls.is_empty(), "{format}: {message:?}");
    }
}

#[test]
fn a_real_call_after_a_mention_is_found() {
    let text = "I use <tool_call> now:\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    let message = parse("hermes", text, &[]);
    assert_eq!(message.content.as_deref(), Some("I use <tool_call> now:"));
    assert_eq!(message.tool_calls.len(), 1);
}

#[test]
fn small_faults_are_forgiven() {
    let arguments = json!({ "city": "Rome" });
    for (format, text) in [
        // A bracket too few, a bracket too many, no close.
        ("hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"city\": \"Rome\"}\n</tool_call>"),
        ("hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"city\": \"Rome\"}}}\n</tool_call>"),
        ("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"city\": \"Rome\"}}"),
        // Arguments first, as a string, under another key, with other keys.
        ("hermes", "<tool_call>{\"arguments\": {\"city\": \"Rome\"}, \"name\": \"f\"}</tool_call>"),
        (
            "hermes",
            "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"city\\\": \\\"Rome\\\"}\"}</tool_call>",
        ),
        ("hermes", "<tool_call>{\"name\": \"f\", \"parameters\": {\"city\": \"Rome\"}}</tool_call>"),
        ("llama3", "{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"city\": \"Rome\"}}"),
        ("llama3", "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"city\": \"Rome\"}}"),
        ("llama3", "<|python_tag|>f.call(city=\"Rome\")"),
        (
            "deepseek-v3",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"city\": \"Rome\"}\n```",
        ),
        ("mistral-args", "[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{\"city\": \"Rome\"}"),
        ("granite-3", "<tool_call>[{\"name\": \"f\", \"arguments\": {\"city\": \"Rome\"}}]"),
        ("glm-4.5", "<tool_call>f<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call>"),
        ("harmony", " to=functions.f<|channel|>commentary json<|message|>{\"city\": \"Rome\"}"),
        ("gigachat3", "function call<|role_sep|>\n{\"name\": \"f\", \"arguments\": {\"city\": \"Rome\"}}"),
        ("pythonic", "[f(city='Rome',)]"),
    ] {
        let message = parse(format, text, &[]);
        assert_eq!(message.content, None, "{format}: {text}");
        let [call] = &message.tool_calls[..] else { panic!("{format}: {text}: {message:?}") };
        assert_eq!(call.name, "f", "{format}: {text}");
        assert!(call.complete, "{format}: {text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&call.arguments).unwrap(), arguments, "{text}");
    }
}

#[test]
fn what_is_cut_off_says_so() {
    for (format, text, expected) in [
        ("hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"so fa", "{\"a\": \"so fa"),
        ("qwen3-coder", "<tool_call>\n<function=f>\n<parameter=a>\nso fa", "{\"a\": so fa"),
        ("pythonic", "[f(a='so fa", "{\"a\": \"so fa"),
        ("harmony", "<|channel|>commentary to=functions.f<|message|>{\"a\"", "{\"a\""),
    ] {
        let message = parse(format, text, &[]);
        assert_eq!(message.content, None, "{format}");
        let [call] = &message.tool_calls[..] else { panic!("{format}: {message:?}") };
        assert!(!call.complete, "{format}");
        assert_eq!(call.arguments, expected, "{format}");
    }
}

#[test]
fn text_around_calls_is_content_without_the_space_between() {
    let call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    let message = parse("hermes", &format!("Before.\n\n{call}\n{call}\nAfter.\n"), &[]);
    assert_eq!(message.content.as_deref(), Some("Before.\nAfter.\n"));
    assert_eq!(message.tool_calls.len(), 2);
    let alone = parse("hermes", &format!("\n{call}\n"), &[]);
    assert_eq!(alone.content, None);
}

#[test]
fn values_of_tags_follow_the_schema() {
    let properties = json!({
        "s": { "type": "string" }, "n": { "type": "integer" }, "b": { "type": "boolean" },
        "o": { "$ref": "#/$defs/o" }, "u": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
        "e": { "enum": ["1", "2"] }
    });
    let parameters =
        json!({ "type": "object", "properties": properties, "$defs": { "o": { "type": "object" } } });
    let tools = [json!({ "name": "f", "input_schema": parameters })];
    let value = |key: &str, text: &str| {
        let text = format!(
            "<tool_call>\n<function=f>\n<parameter={key}>\n{text}\n</parameter>\n</function>\n</tool_call>"
        );
        let message = parse("qwen3-coder", &text, &tools);
        serde_json::from_str::<serde_json::Value>(&message.tool_calls[0].arguments).unwrap()[key].clone()
    };
    assert_eq!(value("s", "12"), "12");
    assert_eq!(value("s", "\ntwo\nlines\n"), "\ntwo\nlines\n");
    assert_eq!(value("n", "12"), 12);
    assert_eq!(value("n", "twelve"), "twelve");
    assert_eq!(value("b", "True"), true);
    assert_eq!(value("o", "{'a': None}"), json!({ "a": null }));
    assert_eq!(value("u", "null"), json!(null));
    assert_eq!(value("u", "5"), "5");
    assert_eq!(value("e", "1"), "1");
    assert_eq!(value("unknown", "[1]"), json!([1]));
    assert_eq!(value("unknown", "one"), "one");
}

/// Apriel writes an id behind the arguments, and other models of its format none.
#[test]
fn ids_behind_the_arguments_are_those_of_the_calls() {
    let first = "{\"name\": \"now\", \"arguments\": {\"zone\": \"utc\"}, \"id\": \"abc123\"}";
    let second = "{\"name\": \"now\", \"arguments\": {}}";
    let message = super::parse("apriel", &format!("<tool_calls>[{first}, {second}]</tool_calls>"), &[]);
    let calls: Vec<(&str, &str)> =
        message.tool_calls.iter().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls[0], ("abc123", "{\"zone\": \"utc\"}"));
    assert_eq!((calls.len(), calls[1].1), (2, "{}"));
    assert!(calls[1].0.starts_with("call_"), "{calls:?}");
}

#[test]
fn without_tools_calls_are_text() {
    let format = ChatFormat::named("hermes").unwrap();
    let options = lamina_chat::ParserOptions { no_calls: true, ..options(format, &[]) };
    let text = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    assert_eq!(Parser::parse(format, &options, text).content.as_deref(), Some(text));
}

#[test]
fn special_tokens_are_structure_and_no_content() {
    let format = ChatFormat::named("hermes").unwrap();
    let mut parser = Parser::new(format, &options(format, &[]));
    let mut message = lamina_chat::ChatMessage::default();
    let mut take = |deltas: Vec<lamina_chat::Delta>| deltas.into_iter().for_each(|d| message.push(d));
    take(parser.push("Hello"));
    take(parser.push_special("<|unused_7|>"));
    take(parser.push(" you. "));
    take(parser.push_special("<tool_call>"));
    take(parser.push("{\"name\": \"now\", \"arguments\": {}}"));
    take(parser.push_special("</tool_call>"));
    take(parser.finish());
    assert_eq!(message.content.as_deref(), Some("Hello you."));
    assert_eq!(message.tool_calls.len(), 1);
}

#[test]
fn a_message_goes_back_into_the_conversation() {
    let text =
        "<think>\nHm.\n</think>\n\nYes.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    let message = parse("hermes", text, &[]);
    let value = message.to_json();
    assert_eq!(value["role"], "assistant");
    assert_eq!(value["content"], "Yes.");
    assert_eq!(value["reasoning_content"], "Hm.");
    assert_eq!(value["tool_calls"][0]["function"], json!({ "name": "now", "arguments": "{}" }));
    assert_eq!(parse("hermes", "Hi", &[]).to_json(), json!({ "role": "assistant", "content": "Hi" }));
}
