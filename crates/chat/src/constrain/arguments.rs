//! Arguments of a tool in the style of a format, as Lark.

use serde_json::{Map, Value, json};

use super::lark::{LarkText, any_of};
use super::spell::{Speller, ValueSpelling, properties};
use crate::formats::{ArgumentStyle, TagStyle};
use crate::parse::{ValueType, resolve_reference};

/// What was written, and keywords of the schema that it does not enforce.
pub(super) struct WrittenArguments {
    pub text: String,
    pub loose: Vec<String>,
}

/// The arguments' expression for a schema that is an object's.
pub(super) fn arguments(
    out: &mut LarkText<'_>,
    style: &'static ArgumentStyle,
    schema: &Value,
) -> WrittenArguments {
    let speller = |spelling| Speller { spelling, root: schema, loose: Vec::new() };
    match style {
        ArgumentStyle::Json => WrittenArguments { text: json_object(schema), loose: Vec::new() },
        ArgumentStyle::Tags(style) => tags(out, style, schema),
        ArgumentStyle::Keywords => {
            let mut speller = speller(ValueSpelling::Python);
            let text = speller.members(out, schema, ("", "="), 0);
            WrittenArguments { text: format!("{text} /\\)/"), loose: speller.loose }
        }
        ArgumentStyle::Bare => {
            let mut speller = speller(ValueSpelling::Gemma);
            let text = speller.members(out, schema, ("", ":"), 0);
            WrittenArguments { text: format!("/\\{{/ {text} /\\}}/"), loose: speller.loose }
        }
        ArgumentStyle::Nested(mark) => {
            let mut speller = speller(ValueSpelling::Nested(mark));
            let text = speller.tags(out, schema, 0);
            WrittenArguments { text, loose: speller.loose }
        }
    }
}

/// A JSON object of this schema.
pub(super) fn json_object(schema: &Value) -> String {
    format!("%json {schema}")
}

/// A part of a schema that stands alone, with the definitions that it may refer to.
fn part(root: &Value, schema: &Value) -> Value {
    let Value::Object(map) = schema else { return schema.clone() };
    let mut map: Map<String, Value> = map.clone();
    for word in ["$defs", "definitions"] {
        if let Some(definitions) = root.get(word) {
            map.entry(word).or_insert_with(|| definitions.clone());
        }
    }
    Value::Object(map)
}

fn tags(out: &mut LarkText<'_>, style: &'static TagStyle, schema: &Value) -> WrittenArguments {
    let mut loose = Vec::new();
    let mut all = String::from("\"\"");
    let known = properties(schema, schema);
    for (key, property, required) in &known {
        let one = tag(out, style, schema, key, property, &mut loose);
        all += &format!(" {one}{}", if *required { "" } else { "?" });
    }
    if known.is_empty() && schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        all += &format!(" ({})*", any_tag(out, style));
    }
    WrittenArguments { text: all, loose }
}

/// The text between key and value.
fn key_end(style: &TagStyle, word: &str) -> String {
    let typed = style.typed.map_or(String::new(), |(before, _)| format!("{before}{word}"));
    let lines = if style.lines { "\n" } else { "" };
    format!("{typed}{}{lines}", style.key_end.join(style.gap))
}

fn tag(
    out: &mut LarkText<'_>,
    style: &'static TagStyle,
    root: &Value,
    key: &str,
    schema: &Value,
    loose: &mut Vec<String>,
) -> String {
    let open =
        |out: &LarkText<'_>, word: &str| out.literal(&format!("{}{key}{}", style.open, key_end(style, word)));
    let after = if style.after.is_empty() { String::new() } else { format!(" {}", out.literal(style.after)) };
    let text = |out: &mut LarkText<'_>| {
        let word = style.typed.map_or("", |(_, string)| string);
        let open = open(out, word);
        let rest = out.up_to(style.close);
        format!("({open} {rest}{after})")
    };
    let resolved = resolve_reference(root, schema);
    let as_json = |out: &LarkText<'_>| {
        let close = if style.lines { format!("\n{}", style.close) } else { style.close.to_owned() };
        let (open, close) = (open(out, word_of(style, resolved)), out.literal(&close));
        format!("({open} %json {} {close}{after})", part(root, schema))
    };
    match ValueType::of(root, schema) {
        ValueType::Json => as_json(out),
        ValueType::Text => match strings(resolved) {
            Some(values) => {
                let word = style.typed.map_or("", |(_, string)| string);
                let lines = if style.lines { "\n" } else { "" };
                let value = |value: &str| out.literal(&format!("{value}{lines}{}", style.close));
                let values = any_of(&values.iter().map(|v| value(v)).collect::<Vec<_>>());
                format!("({} {values}{after})", open(out, word))
            }
            None => {
                let narrowing = ["pattern", "format", "minLength", "maxLength"];
                loose.extend(narrowing.iter().filter(|w| resolved.get(**w).is_some()).map(|w| (*w).into()));
                text(out)
            }
        },
        // As a string, or as what it is where the tag tells them apart.
        ValueType::TextOr(_) | ValueType::Unknown if style.typed.is_some() => {
            let (text, json) = (text(out), as_json(out));
            format!("({text} | {json})")
        }
        ValueType::TextOr(_) | ValueType::Unknown => text(out),
    }
}

/// The strings that are all that a schema allows.
fn strings(schema: &Value) -> Option<Vec<&str>> {
    match (schema.get("enum").and_then(Value::as_array), schema.get("const")) {
        (Some(values), _) => values.iter().map(Value::as_str).collect(),
        (None, Some(value)) => value.as_str().map(|text| vec![text]),
        (None, None) => None,
    }
}

/// The word that tells the type of a value that is no string.
fn word_of(style: &TagStyle, schema: &Value) -> &'static str {
    // A word for strings alone is a yes or no.
    if style.typed.is_none_or(|(_, string)| string == "true") {
        return "false";
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("integer" | "number") => "number",
        Some("boolean") => "boolean",
        Some("array") => "array",
        Some("null") => "null",
        _ => "object",
    }
}

/// An argument of any name and value.
fn any_tag(out: &mut LarkText<'_>, style: &'static TagStyle) -> String {
    let word = style.typed.map_or("", |(_, string)| string);
    let (open, end) = (out.literal(style.open), out.literal(&key_end(style, word)));
    let rest = out.up_to(style.close);
    let after = if style.after.is_empty() { String::new() } else { format!(" {}", out.literal(style.after)) };
    format!("{open} /[A-Za-z0-9_.\\-]{{1,64}}/ {end} {rest}{after}")
}

/// The schema of a tool's arguments as that of an object.
pub(super) fn object_schema(tool: &Value) -> Value {
    let function = tool.get("function").filter(|f| f.is_object()).unwrap_or(tool);
    let schema = function.get("parameters").or_else(|| function.get("input_schema"));
    match schema {
        Some(Value::Object(map)) => {
            let mut map = map.clone();
            map.entry("type").or_insert_with(|| "object".into());
            Value::Object(map)
        }
        _ => json!({ "type": "object", "properties": {}, "additionalProperties": false }),
    }
}
