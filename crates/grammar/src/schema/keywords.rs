//! Keywords by what they say, and what several files of this folder read of a schema.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::rewritten::Rewritten;
use crate::error::{GrammarError, Result};
use crate::limits;

/// Keywords that say nothing about what is valid.
pub(super) const ANNOTATIONS: &[&str] = &[
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$id",
    "$recursiveAnchor",
    "$schema",
    "$vocabulary",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "example",
    "examples",
    "id",
    "readOnly",
    "title",
    "writeOnly",
];

/// Keywords that [`Walk`](super::walk::Walk) reads.
pub(super) const ASSERTIONS: &[&str] = &[
    "$dynamicRef",
    "$recursiveRef",
    "$ref",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

/// An object of a few entries.
pub(super) fn object_of<const N: usize>(entries: [(&str, Value); N]) -> Map<String, Value> {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// `path` and one more step of a JSON pointer.
pub(super) fn step(path: &str, key: impl std::fmt::Display) -> String {
    let mut out = String::with_capacity(path.len() + 16);
    out.push_str(path);
    out.push('/');
    // A text takes all that is written.
    let _ = write!(out, "{key}");
    let from = path.len() + 1;
    if out[from..].contains(['~', '/']) {
        let escaped = out[from..].replace('~', "~0").replace('/', "~1");
        out.replace_range(from.., &escaped);
    }
    out
}

/// Whether keywords are there that combine schemas.
pub(super) fn combines(map: &Map<String, Value>) -> bool {
    [
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "not",
        "dependentSchemas",
        "dependencies",
    ]
    .iter()
    .any(|key| map.contains_key(*key))
}

/// Whether a value of this type can satisfy `type`.
pub(super) fn may_be(map: &Map<String, Value>, name: &str) -> bool {
    match map.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(names)) => names.iter().any(|n| n == name),
        _ => true,
    }
}

/// The entries of `value`, which must be an object.
pub(super) fn entries<'v>(value: &'v Value, at: &str) -> Result<&'v Map<String, Value>> {
    value.as_object().ok_or_else(|| GrammarError::schema(at, "must be an object"))
}

/// Copies whole numbers that count something.
pub(super) fn counts(
    map: &Map<String, Value>,
    keywords: &[&str],
    path: &str,
    out: &mut Rewritten,
) -> Result<()> {
    for keyword in keywords {
        let Some(value) = map.get(*keyword) else { continue };
        let whole =
            value.as_u64().or(value.as_f64().filter(|v| *v >= 0.0 && v.fract() == 0.0).map(|v| v as u64));
        let wrong = || GrammarError::schema(step(path, keyword), "must be a whole number, 0 or more");
        let mut count = whole.ok_or_else(wrong)?;
        if count > limits::REPETITION {
            if keyword.starts_with("min") {
                let hint = "ask for less";
                let what = format!("{keyword} at {path}");
                return Err(GrammarError::too_large(what, limits::REPETITION as usize, hint));
            }
            // No answer is as long: the bound is kept, closer.
            count = limits::REPETITION;
        }
        out.plain.insert((*keyword).into(), json!(count));
    }
    Ok(())
}
