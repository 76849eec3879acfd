//! Reasoning: its marks, where it begins, and how templates are told.

use lamina_chat::{ChatFormat, Parser, ParserOptions, ReasoningMarks, reasoning_variables};

fn parse(inside: bool, text: &str) -> lamina_chat::ChatMessage {
    let format = ChatFormat::named("hermes").unwrap();
    let options = ParserOptions { reasoning: Some(format.reasoning), inside, ..ParserOptions::default() };
    Parser::parse(format, &options, text)
}

#[test]
fn reasoning_is_split_off_and_trimmed() {
    for (inside, text, reasoning, content) in [
        (false, "<think>\nHm.\n</think>\n\nYes.", Some("Hm."), Some("Yes.")),
        (true, "\nHm.\n</think>\n\nYes.", Some("Hm."), Some("Yes.")),
        (true, "Hm, so", Some("Hm, so"), None),
        (true, "</think>Yes", None, Some("Yes")),
        (false, "</think>Yes", None, Some("Yes")),
        (false, "<think>\n\n</think>\n\nYes", None, Some("Yes")),
        (false, "Yes <think> is a tag", None, Some("Yes <think> is a tag")),
        (false, "  Yes ", None, Some("  Yes ")),
        (true, "a </thin b</think>c", Some("a </thin b"), Some("c")),
        (
            true,
            "<tool_call>{\"name\": \"x\", \"arguments\": {}}</tool_call></think>c",
            Some("<tool_call>{\"name\": \"x\", \"arguments\": {}}</tool_call>"),
            Some("c"),
        ),
        (false, "<think>a</think><think>b</think>c", Some("a\nb"), Some("c")),
    ] {
        let message = parse(inside, text);
        assert_eq!(message.reasoning.as_deref(), reasoning, "{text}");
        assert_eq!(message.content.as_deref(), content, "{text}");
    }
}

#[test]
fn the_prompts_end_tells_where_an_answer_begins() {
    let marks = ReasoningMarks::of_template("{{ '<think>' }}").unwrap();
    for (prompt, inside) in [
        ("<|assistant|><think>", true),
        ("<|assistant|><think>\n", true),
        ("<|assistant|><think>\n\n</think>\n\n", false),
        ("<|assistant|>", false),
        ("what does <think> mean?<|assistant|>", false),
    ] {
        assert_eq!(marks.begins_inside(prompt), inside, "{prompt}");
    }
    assert_eq!(ReasoningMarks::of_template("no marks"), None);
}

#[test]
fn an_answer_in_marks_of_its_own_is_unwrapped() {
    let format = ChatFormat::named("granite-3").unwrap();
    let options = ParserOptions { reasoning: Some(format.reasoning), ..ParserOptions::default() };
    let message = Parser::parse(format, &options, "<think>Hm.</think>\n<response>Yes.</response>");
    assert_eq!(message.content.as_deref(), Some("Yes."));
    // Without the opening one the closing one is text.
    let message = Parser::parse(format, &options, "XML ends with </response>");
    assert_eq!(message.content.as_deref(), Some("XML ends with </response>"));
}

#[test]
fn templates_are_told_by_their_own_variables() {
    let variables = |source: &str, on| serde_json::Value::Object(reasoning_variables(source, on)).to_string();
    let qwen = "{%- if enable_thinking is defined and enable_thinking is false %}";
    assert_eq!(variables(qwen, false), "{\"enable_thinking\":false}");
    assert_eq!(variables("{% if thinking %}x{% endif %} thinking", true), "{\"thinking\":true}");
    assert_eq!(variables("{% if message.thinking or m['thinking'] %}", true), "{}");
    let effort = "{% if reasoning_effort in ['high', 'low', 'no_think'] %}";
    assert_eq!(variables(effort, false), "{\"reasoning_effort\":\"no_think\"}");
    assert_eq!(variables("nothing", true), "{}");
}
