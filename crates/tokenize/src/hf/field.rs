//! Fields of the parts of a `tokenizer.json`.

use serde_json::Value;

/// The type of a part.
pub(super) fn kind(json: &Value) -> Result<&str, String> {
    json.get("type").and_then(Value::as_str).ok_or_else(|| "has no type".into())
}

pub(super) fn text<'j>(json: &'j Value, name: &str) -> Result<&'j str, String> {
    json.get(name).and_then(Value::as_str).ok_or_else(|| format!("needs a text {name}"))
}

pub(super) fn character(json: &Value, name: &str) -> Result<char, String> {
    let mut chars = text(json, name)?.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) => Ok(c),
        _ => Err(format!("needs one character as {name}")),
    }
}

pub(super) fn flag(json: &Value, name: &str) -> Result<bool, String> {
    json.get(name).and_then(Value::as_bool).ok_or_else(|| format!("needs true or false as {name}"))
}

pub(super) fn number(json: &Value, name: &str) -> Result<usize, String> {
    let number = json.get(name).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| format!("needs a number {name}"))
}

pub(super) fn list<'j>(json: &'j Value, name: &str) -> Result<&'j [Value], String> {
    json.get(name).and_then(Value::as_array).map(Vec::as_slice).ok_or_else(|| format!("needs a list {name}"))
}

/// A field that may be absent or null.
pub(super) fn optional<'j, T>(
    json: &'j Value,
    name: &str,
    read: impl Fn(&'j Value, &str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    match json.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => read(json, name).map(Some),
    }
}
