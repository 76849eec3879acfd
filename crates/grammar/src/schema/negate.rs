//! What a schema forbids, as a schema: for `not`, and for `if` that does not hold.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::keywords::{ANNOTATIONS, ASSERTIONS, object_of};
use super::values;

const TYPES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];

/// The schema of all values that `schema` does not allow; None where this has no exact form. References are followed
/// with `resolve`. Values that are negated are of the types `within`, if these are known: what only other types tell
/// apart need not be said.
pub(super) fn negated(
    schema: &Value,
    within: Option<&[String]>,
    resolve: &dyn Fn(&str) -> Option<Value>,
    depth: usize,
) -> Option<Value> {
    let map = match schema {
        Value::Bool(allowed) => return Some(Value::Bool(!allowed)),
        Value::Object(map) => map,
        _ => return None,
    };
    let depth = depth.checked_sub(1)?;
    let inner = |schema: &Value| negated(schema, within, resolve, depth);
    let of_member = |schema: &Value| negated(schema, None, resolve, depth);
    let mut ways = Vec::new();
    for (keyword, value) in map {
        if ANNOTATIONS.contains(&keyword.as_str()) || !ASSERTIONS.contains(&keyword.as_str()) {
            continue;
        }
        ways.push(match keyword.as_str() {
            "type" if covers(&types(value)?, within) => Value::Bool(false),
            "type" => other_types(&types(value)?)?,
            "const" => other_values(std::slice::from_ref(value))?,
            "enum" => other_values(value.as_array()?)?,
            "required" => any_of(value.as_array()?.iter().map(|name| Some(lacks(name.as_str()?))))?,
            "properties" => {
                any_of(value.as_object()?.iter().map(|(name, s)| Some(has(name, of_member(s)?))))?
            }
            "allOf" => any_of(value.as_array()?.iter().map(inner))?,
            "anyOf" => json!({ "allOf": value.as_array()?.iter().map(inner).collect::<Option<Vec<_>>>()? }),
            "not" => value.clone(),
            "$ref" => inner(&resolve(value.as_str()?)?)?,
            _ => measure(keyword, value, map)?,
        });
    }
    any_of(ways.into_iter().map(Some))
}

fn any_of(ways: impl Iterator<Item = Option<Value>>) -> Option<Value> {
    let mut ways = ways.collect::<Option<Vec<_>>>()?;
    ways.retain(|way| *way != Value::Bool(false));
    Some(match ways.len() {
        0 => Value::Bool(false),
        1 => ways.remove(0),
        _ => json!({ "anyOf": ways }),
    })
}

/// An object without this member.
fn lacks(name: &str) -> Value {
    json!({ "type": "object", "properties": { name: false } })
}

/// An object with this member, which satisfies `schema`.
fn has(name: &str, schema: Value) -> Value {
    if schema == Value::Bool(false) {
        return schema;
    }
    json!({ "type": "object", "required": [name], "properties": { name: schema } })
}

fn types(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) => names.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

/// Whether all values of the types `within` are of these.
fn covers(types: &[&str], within: Option<&[String]>) -> bool {
    let has = |name: &str| types.contains(&name) || (name == "integer" && types.contains(&"number"));
    within.is_some_and(|within| within.iter().all(|name| has(name)))
}

/// The types that `type` of a schema allows, if it has one.
pub(super) fn types_of(schema: &Map<String, Value>) -> Option<Vec<String>> {
    types(schema.get("type")?).map(|names| names.into_iter().map(str::to_owned).collect())
}

fn other_types(types: &[&str]) -> Option<Value> {
    // There is no type of numbers that are not whole.
    if types.contains(&"integer") && !types.contains(&"number") {
        return None;
    }
    let others: Vec<&str> = TYPES.into_iter().filter(|name| !types.contains(name)).collect();
    Some(if others.is_empty() { Value::Bool(false) } else { json!({ "type": others }) })
}

/// All values but these.
fn other_values(list: &[Value]) -> Option<Value> {
    let mut by_type: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    list.iter().for_each(|value| by_type.entry(values::type_of(value)).or_default().push(value));
    let present: Vec<&str> = by_type.keys().copied().collect();
    let mut ways = vec![Some(other_types(&present)?)];
    for (name, list) in by_type {
        match name {
            "null" => {}
            "boolean" => {
                let other = |b: bool| !list.contains(&&Value::Bool(b));
                ways.extend(
                    [true, false].into_iter().filter(|&b| other(b)).map(|b| Some(json!({ "const": b }))),
                );
            }
            "number" => ways.extend(other_numbers(&list)?.into_iter().map(Some)),
            "string" => {
                let texts = list.iter().filter_map(|value| value.as_str()).collect::<Vec<_>>();
                ways.push(Some(json!({ "type": "string", "pattern": other_texts(&texts) })));
            }
            _ => return None,
        }
    }
    any_of(ways.into_iter())
}

/// The gaps between numbers.
fn other_numbers(list: &[&Value]) -> Option<Vec<Value>> {
    let mut sorted: Vec<(f64, &Value)> =
        list.iter().map(|v| Some((v.as_f64()?, *v))).collect::<Option<_>>()?;
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    sorted.dedup_by(|a, b| a.0 == b.0);
    let mut gaps: Vec<Map<String, Value>> = vec![object_of([("type", json!("number"))])];
    for (_, value) in sorted {
        if let Some(last) = gaps.last_mut() {
            last.insert("exclusiveMaximum".into(), value.clone());
        }
        gaps.push(object_of([("type", json!("number")), ("exclusiveMinimum", value.clone())]));
    }
    Some(gaps.into_iter().map(Value::Object).collect())
}

/// A pattern of all strings but these: down a tree of their characters, wherever one may leave it.
fn other_texts(texts: &[&str]) -> String {
    format!("^(?:{})$", leaving(texts))
}

fn leaving(texts: &[&str]) -> String {
    let mut children: BTreeMap<char, Vec<&str>> = BTreeMap::new();
    for text in texts {
        let mut rest = text.chars();
        if let Some(first) = rest.next() {
            children.entry(first).or_default().push(rest.as_str());
        }
    }
    let code = |c: &char| format!("\\u{{{:X}}}", *c as u32);
    let known: String = children.keys().map(code).collect();
    let mut ways = vec![if known.is_empty() { "[^][^]*".into() } else { format!("[^{known}][^]*") }];
    if !texts.contains(&"") {
        ways.push(String::new());
    }
    ways.extend(children.iter().map(|(c, rest)| format!("{}(?:{})", code(c), leaving(rest))));
    ways.join("|")
}

/// Limits of one kind of value.
fn measure(keyword: &str, value: &Value, map: &Map<String, Value>) -> Option<Value> {
    let booleans =
        ["exclusiveMinimum", "exclusiveMaximum"].iter().any(|k| map.get(*k).is_some_and(Value::is_boolean));
    if booleans {
        return None;
    }
    let below = |kind: &str, limit: &str| match value.as_u64()? {
        0 => Some(Value::Bool(false)),
        n => Some(json!({ "type": kind, limit: n - 1 })),
    };
    let above =
        |kind: &str, limit: &str| Some(json!({ "type": kind, limit: value.as_u64()?.checked_add(1)? }));
    match keyword {
        "minimum" => Some(json!({ "type": "number", "exclusiveMaximum": value })),
        "maximum" => Some(json!({ "type": "number", "exclusiveMinimum": value })),
        "exclusiveMinimum" => Some(json!({ "type": "number", "maximum": value })),
        "exclusiveMaximum" => Some(json!({ "type": "number", "minimum": value })),
        "minLength" => below("string", "maxLength"),
        "maxLength" => above("string", "minLength"),
        "minItems" => below("array", "maxItems"),
        "maxItems" => above("array", "minItems"),
        "minProperties" => below("object", "maxProperties"),
        "maxProperties" => above("object", "minProperties"),
        _ => None,
    }
}
