//! Grammars of tool calls, for every format: whatever they allow, the parser reads back as calls that are valid.

mod vocabulary;
mod walk;

use lamina_chat::{
    ChatFormat, ChatMessage, MarkTokens, Parser, ParserOptions, ToolChoice, ToolGrammar, ToolRules,
    mark_pieces, structure_tokens, tool_grammar,
};
use lamina_fixtures::extent;
use lamina_grammar::{Grammar, SchemaOptions};
use serde_json::{Value, json};
use vocabulary::Words;
use walk::Walk;

fn tool(name: &str, parameters: Value) -> Value {
    json!({ "type": "function", "function": { "name": name, "parameters": parameters } })
}

/// Schemas with what every spelling can enforce.
fn tools() -> Vec<Value> {
    let at = json!({
        "type": "object", "required": ["lat"], "additionalProperties": false,
        "properties": { "lat": { "type": "integer" }, "near": { "type": "boolean" } },
    });
    vec![
        tool(
            "get_weather",
            json!({
                "type": "object", "required": ["city", "unit"], "additionalProperties": false,
                "properties": { "city": { "type": "string" }, "days": { "type": "integer" }, "unit": { "enum": ["C", "F"] } },
            }),
        ),
        tool(
            "mark.place-2",
            json!({
                "type": "object", "required": ["at"], "additionalProperties": false,
                "properties": { "at": at, "tags": { "type": "array", "items": { "enum": ["a", "b"] } }, "on": { "type": "boolean" } },
            }),
        ),
        tool("now", json!({ "type": "object", "properties": {}, "additionalProperties": false })),
    ]
}

fn grammar_of(
    format: &ChatFormat,
    words: &Words,
    choice: &ToolChoice,
    parallel: bool,
    answer: Option<&str>,
) -> Option<ToolGrammar> {
    let ends = words.ends();
    let structure = structure_tokens(&words.tokenizer, &ends);
    let cut = |mark: &str| mark_pieces(&words.tokenizer, mark);
    let rules = ToolRules {
        tools: &tools(),
        choice,
        parallel,
        answer,
        thoughts: true,
        marks: MarkTokens { cut: &cut, structure: &structure, ends: &ends },
        enforced: &|schema| match Grammar::json_schema(&schema, SchemaOptions::default()) {
            Ok(_) => Ok(schema),
            Err(e) => Err(e.to_string()),
        },
    };
    let made = tool_grammar(format, &rules).expect(format.name);
    assert!(made.as_ref().is_none_or(|made| made.warnings.is_empty()), "{}: {made:?}", format.name);
    made
}

fn compiled(format: &ChatFormat, made: &ToolGrammar) -> Grammar {
    Grammar::lark(&made.lark).unwrap_or_else(|e| panic!("{}: {e}\n{}", format.name, made.lark))
}

fn read(format: &'static ChatFormat, text: &str) -> ChatMessage {
    let all = tools();
    let options =
        ParserOptions { tools: &all, reasoning: Some(format.reasoning), ..ParserOptions::default() };
    Parser::parse(format, &options, text)
}

/// Each call is of a tool, whole, and its arguments satisfy the schema.
#[track_caller]
fn are_valid(message: &ChatMessage, context: &str) {
    let tools = tools();
    for call in &message.tool_calls {
        let tool = tools.iter().find(|tool| tool["function"]["name"] == call.name.as_str());
        let tool = tool.unwrap_or_else(|| panic!("{context}: {}", call.name));
        assert!(call.complete, "{context}: {call:?}");
        let value: Value =
            serde_json::from_str(&call.arguments).unwrap_or_else(|e| panic!("{context}: {e}: {call:?}"));
        assert!(satisfies(&value, &tool["function"]["parameters"]), "{context}: {call:?}");
    }
}

/// Whether a value satisfies a schema of the keywords that [`tools`] has.
fn satisfies(value: &Value, schema: &Value) -> bool {
    if let Some(values) = schema["enum"].as_array() {
        return values.contains(value);
    }
    match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        Some("array") => {
            value.as_array().is_some_and(|all| all.iter().all(|item| satisfies(item, &schema["items"])))
        }
        _ => value.as_object().is_some_and(|object| {
            let known =
                |(key, value): (&String, &Value)| satisfies(value, &schema["properties"][key.as_str()]);
            let required = schema["required"].as_array().into_iter().flatten();
            object.iter().all(known)
                && required.into_iter().all(|key| object.contains_key(key.as_str().unwrap_or_default()))
        }),
    }
}

fn formats() -> impl Iterator<Item = &'static ChatFormat> {
    ChatFormat::all().iter().copied().filter(|format| format.name != "none")
}

/// Both with marks that are tokens and with marks that are spelled.
fn vocabularies() -> [Words; 2] {
    [Words::plain(), Words::with_marks()]
}

#[test]
fn required_calls_are_calls_and_nothing_else() {
    for words in vocabularies() {
        for format in formats() {
            let made = grammar_of(format, &words, &ToolChoice::Required, true, None).expect("a grammar");
            let grammar = compiled(format, &made);
            let mut several = 0;
            for seed in 0..7 {
                let Some(text) = Walk::new(&grammar, &words, seed).text() else { continue };
                let message = read(format, &text);
                let context = format!("{}: {text:?}\n{}", format.name, made.lark);
                assert!(!message.tool_calls.is_empty(), "{context}\n{message:?}");
                assert_eq!(message.content, None, "{context}");
                are_valid(&message, &context);
                several += 1;
            }
            assert!(several >= 4, "{}: only {several} walks ended\n{}", format.name, made.lark);
        }
    }
}

#[test]
fn a_named_tool_is_called_once() {
    for words in vocabularies() {
        for format in formats() {
            let choice = ToolChoice::Named("mark.place-2".into());
            let made = grammar_of(format, &words, &choice, true, None).expect("a grammar");
            let grammar = compiled(format, &made);
            for seed in 0..4 {
                let Some(text) = Walk::new(&grammar, &words, seed).text() else { continue };
                let message = read(format, &text);
                let names: Vec<&str> = message.tool_calls.iter().map(|call| call.name.as_str()).collect();
                assert_eq!(names, ["mark.place-2"], "{}: {text:?}\n{}", format.name, made.lark);
                are_valid(&message, &text);
            }
        }
    }
}

#[test]
fn an_answer_may_be_text_or_calls() {
    for (i, words) in vocabularies().into_iter().enumerate() {
        for format in extent::some(formats(), i, 4) {
            for parallel in [true, false] {
                let made = grammar_of(format, &words, &ToolChoice::Auto, parallel, None).expect("a grammar");
                let grammar = compiled(format, &made);
                let (mut called, mut said) = (0, 0);
                for seed in 0..10 {
                    let Some(text) = Walk::new(&grammar, &words, seed).text() else { continue };
                    let message = read(format, &text);
                    let context = format!("{}: {text:?}\n{}\n{message:?}", format.name, made.lark);
                    are_valid(&message, &context);
                    assert!(parallel || message.tool_calls.len() <= 1, "{context}");
                    called += usize::from(!message.tool_calls.is_empty());
                    said += usize::from(message.content.is_some());
                }
                assert!(
                    called > 0 && said > 0,
                    "{}: {called} called, {said} said\n{}",
                    format.name,
                    made.lark
                );
            }
        }
    }
}

/// With a form of the answer, an answer is of that form, or calls.
#[test]
fn an_answer_of_a_form_is_of_it_or_calls() {
    let form = Grammar::json_schema(&json!({ "enum": [{ "ok": 1 }, [2]] }), SchemaOptions::default())
        .expect("a schema");
    for words in vocabularies() {
        for format in formats() {
            let made =
                grammar_of(format, &words, &ToolChoice::Auto, true, Some(Grammar::HOLE)).expect("a grammar");
            let grammar =
                Grammar::lark_around(&made.lark, &form).unwrap_or_else(|e| panic!("{}: {e}", format.name));
            for seed in 0..4 {
                let Some(text) = Walk::new(&grammar, &words, seed).text() else { continue };
                let message = read(format, &text);
                let context = format!("{}: {text:?}\n{}\n{message:?}", format.name, made.lark);
                are_valid(&message, &context);
                match message.tool_calls.is_empty() {
                    true => assert!(
                        form.matches(message.content.as_deref().unwrap_or_default().trim()),
                        "{context}"
                    ),
                    // A message before a call is part of the format there.
                    false if format.name == "harmony" => {}
                    false => assert!(message.content.is_none_or(|c| c.trim().is_empty()), "{context}"),
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_had_is_refused() {
    let words = Words::plain();
    let none = |schema: Value| Err(format!("no {schema}"));
    let cut = |mark: &str| mark_pieces(&words.tokenizer, mark);
    let marks = MarkTokens { cut: &cut, structure: &[], ends: &[] };
    let made = |name: &str, tools: &[Value], choice: ToolChoice| {
        let rules = ToolRules {
            tools,
            choice: &choice,
            parallel: true,
            answer: None,
            thoughts: true,
            marks,
            enforced: &none,
        };
        tool_grammar(ChatFormat::named(name).expect("a format"), &rules)
    };
    let tools = tools();
    assert!(made("none", &tools, ToolChoice::Required).unwrap_err().contains("tool_choice"));
    assert_eq!(made("none", &tools, ToolChoice::Auto), Ok(None));
    assert_eq!(made("hermes", &tools, ToolChoice::None), Ok(None));
    assert_eq!(made("hermes", &[], ToolChoice::Auto), Ok(None));
    assert!(made("hermes", &[], ToolChoice::Required).unwrap_err().contains("no tools"));
    assert!(made("hermes", &tools, ToolChoice::Named("later".into())).unwrap_err().contains("later"));
    let loose = made("hermes", &tools, ToolChoice::Auto).expect("a grammar").expect("a grammar");
    assert!(loose.warnings[0].contains("get_weather") && loose.warnings.len() == 3, "{:?}", loose.warnings);
    let mut strict = tools[0].clone();
    strict["function"]["strict"] = json!(true);
    assert!(made("hermes", &[strict], ToolChoice::Auto).unwrap_err().contains("strict"));
}

/// A spelling that is no JSON says what it leaves open; a strict tool is refused then.
#[test]
fn tags_say_which_keywords_they_cannot_hold() {
    let words = Words::plain();
    let schema =
        json!({ "type": "object", "properties": { "code": { "type": "string", "pattern": "^[A-Z]+$" } } });
    let cut = |mark: &str| mark_pieces(&words.tokenizer, mark);
    let made = |strict: bool| {
        let mut tool = tool("open", schema.clone());
        tool["function"]["strict"] = json!(strict);
        let marks = MarkTokens { cut: &cut, structure: &[], ends: &[] };
        let (tools, choice) = ([tool], ToolChoice::Auto);
        let rules = ToolRules {
            tools: &tools,
            choice: &choice,
            parallel: true,
            answer: None,
            thoughts: true,
            marks,
            enforced: &Ok,
        };
        tool_grammar(ChatFormat::named("qwen3-coder").expect("a format"), &rules)
    };
    assert!(made(false).expect("a grammar").expect("a grammar").warnings[0].contains("pattern"));
    assert!(made(true).unwrap_err().contains("pattern"));
}
