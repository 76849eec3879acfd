//! Values of `enum` and `const`.

use serde_json::{Map, Value};

use super::keywords::step;
use super::numbers;
use crate::error::{GrammarError, Result};
use crate::limits::ENUM_VALUES;

/// Checks that a value can be written exactly.
pub(super) fn check(value: &Value, keyword: &str, path: &str) -> Result<()> {
    match value {
        Value::Null | Value::Bool(_) => Ok(()),
        Value::Number(n) => numbers::exact(n, keyword, path).map(drop),
        Value::String(text) => writable(text, keyword, path),
        Value::Array(items) => items.iter().try_for_each(|item| check(item, keyword, path)),
        Value::Object(map) => map.values().try_for_each(|item| check(item, keyword, path)),
    }
}

/// Characters that have no short escape are not written: see [`super::ESCAPES`].
fn writable(text: &str, keyword: &str, path: &str) -> Result<()> {
    let short = |c: char| matches!(c, '\u{8}' | '\t' | '\n' | '\u{c}' | '\r');
    match text.chars().find(|&c| (c < ' ' && !short(c)) || c == '\u{7f}') {
        Some(c) => {
            let why = format!("the control character U+{:04X} is not written; remove it", c as u32);
            Err(GrammarError::refused(keyword, path, why))
        }
        None => Ok(()),
    }
}

/// The values that `enum` or `const` of `map` allow, if it has one.
pub(super) fn finite(map: &Map<String, Value>) -> Option<Vec<Value>> {
    match (map.get("const"), map.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        _ => None,
    }
}

/// The list of `enum`.
pub(super) fn list<'a>(value: &'a Value, path: &str) -> Result<&'a Vec<Value>> {
    let list = value.as_array();
    let list = list.ok_or_else(|| GrammarError::schema(step(path, "enum"), "must be a list"))?;
    if list.len() > ENUM_VALUES {
        let what = format!("an enum of {} values at {path}", list.len());
        return Err(GrammarError::too_large(what, ENUM_VALUES, "shorten it, or use a pattern"));
    }
    Ok(list)
}

/// The type of a value, as schemas name it; whole numbers are numbers.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether two values are one to a schema: numbers by their value.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}
