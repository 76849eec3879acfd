//! Keywords of objects that have an exact form in others.

use serde_json::{Map, Value, json};

use super::keywords::{ASSERTIONS, object_of, step};
use super::values;
use crate::error::{GrammarError, Result};

/// Names in `dependentRequired` and the like: each doubles the ways through an object.
const MOST_DEPENDENCIES: usize = 6;

/// The dependencies of `map` as schemas that must hold beside it: the name is absent, or what it asks for holds.
pub(super) fn dependencies(map: &Map<String, Value>, path: &str) -> Result<Vec<Value>> {
    let mut out = Vec::new();
    for keyword in ["dependentRequired", "dependentSchemas", "dependencies"] {
        let Some(value) = map.get(keyword) else { continue };
        let at = step(path, keyword);
        let entries = value.as_object().ok_or_else(|| GrammarError::schema(&at, "must be an object"))?;
        for (name, asked) in entries {
            let asked = match asked {
                Value::Array(names) if keyword != "dependentSchemas" => {
                    json!({ "required": names.iter().chain([&json!(name)]).collect::<Vec<_>>() })
                }
                Value::Object(_) | Value::Bool(_) if keyword != "dependentRequired" => asked.clone(),
                _ => {
                    return Err(GrammarError::schema(step(&at, name), "must be a list of names or a schema"));
                }
            };
            out.push(json!({ "anyOf": [{ "properties": { name: false } }, asked] }));
        }
    }
    if out.len() > MOST_DEPENDENCIES {
        let why = format!("more than {MOST_DEPENDENCIES} dependencies in one schema cannot be enforced");
        return Err(GrammarError::refused("dependentRequired", path, why));
    }
    Ok(out)
}

/// `propertyNames` as a schema of objects; None where it says nothing.
pub(super) fn names(value: &Value, path: &str) -> Result<Option<Value>> {
    let refused = || {
        let why = "only pattern, enum, const, minLength and maxLength can be enforced in it";
        GrammarError::refused("propertyNames", path, why)
    };
    let map = match value {
        Value::Bool(true) => return Ok(None),
        Value::Bool(false) => return Ok(Some(json!({ "maxProperties": 0 }))),
        Value::Object(map) => map,
        _ => return Err(GrammarError::schema(step(path, "propertyNames"), "must be a schema")),
    };
    let said: Vec<&str> =
        map.keys().map(String::as_str).filter(|k| ASSERTIONS.contains(k) && *k != "type").collect();
    if map.get("type").is_some_and(|t| t != "string") {
        return Err(refused());
    }
    let open =
        |pattern: &str| json!({ "patternProperties": { pattern: true }, "additionalProperties": false });
    match said.as_slice() {
        [] => Ok(None),
        ["pattern"] => Ok(Some(open(map["pattern"].as_str().ok_or_else(refused)?))),
        ["enum"] | ["const"] => {
            let names = values::finite(map).ok_or_else(refused)?;
            let names =
                names.iter().filter_map(Value::as_str).map(|name| (name.to_owned(), Value::Bool(true)));
            let known: Map<String, Value> = names.collect();
            Ok(Some(json!({ "properties": known, "additionalProperties": false })))
        }
        lengths if lengths.iter().all(|k| matches!(*k, "minLength" | "maxLength")) => {
            let bound = |key: &str| map.get(key).map(|v| v.as_u64().ok_or_else(refused)).transpose();
            let (least, most) = (bound("minLength")?.unwrap_or(0), bound("maxLength")?);
            let most = most.map_or(String::new(), |n| n.to_string());
            Ok(Some(open(&format!("^[^]{{{least},{most}}}$"))))
        }
        _ => Err(refused()),
    }
}

/// Names that a schema's own keywords speak of.
#[derive(Default)]
struct Known {
    names: Map<String, Value>,
    patterns: Map<String, Value>,
    all: bool,
}

/// `unevaluatedProperties` as a schema of objects, where the names that others evaluate are known from the schema
/// alone; the outer None where they are not.
pub(super) fn unevaluated(
    map: &Map<String, Value>,
    resolve: &dyn Fn(&str) -> Option<Value>,
) -> Option<Option<Value>> {
    let rest = map.get("unevaluatedProperties")?;
    let mut known = Known::default();
    collect(map, resolve, &mut known, 8)?;
    if known.all || *rest == Value::Bool(true) {
        return Some(None);
    }
    Some(Some(Value::Object(object_of([
        ("properties", Value::Object(known.names)),
        ("patternProperties", Value::Object(known.patterns)),
        ("additionalProperties", rest.clone()),
    ]))))
}

/// Collects what is evaluated whenever the schema holds; None where that depends on the value.
fn collect(
    map: &Map<String, Value>,
    resolve: &dyn Fn(&str) -> Option<Value>,
    known: &mut Known,
    depth: usize,
) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let listed =
        |key: &str| map.get(key).and_then(Value::as_object).into_iter().flat_map(|m| m.keys().cloned());
    known.names.extend(listed("properties").map(|name| (name, Value::Bool(true))));
    known.patterns.extend(listed("patternProperties").map(|name| (name, Value::Bool(true))));
    known.all |= map.contains_key("additionalProperties");
    let conditional = [
        "anyOf",
        "oneOf",
        "if",
        "then",
        "else",
        "dependentSchemas",
        "dependencies",
        "not",
        "$dynamicRef",
        "$recursiveRef",
    ];
    for keyword in conditional {
        let Some(value) = map.get(keyword) else { continue };
        if mentions_members(value) {
            return None;
        }
    }
    for part in map.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        collect_of(part, resolve, known, depth)?;
    }
    if let Some(reference) = map.get("$ref") {
        collect_of(&resolve(reference.as_str()?)?, resolve, known, depth)?;
    }
    Some(())
}

fn collect_of(
    schema: &Value,
    resolve: &dyn Fn(&str) -> Option<Value>,
    known: &mut Known,
    depth: usize,
) -> Option<()> {
    let Value::Object(map) = schema else { return Some(()) };
    known.all |= map.contains_key("unevaluatedProperties");
    collect(map, resolve, known, depth)
}

/// Whether something in there may evaluate members of an object.
fn mentions_members(value: &Value) -> bool {
    let speaks = |key: &str| {
        key.starts_with('$')
            || key.ends_with("roperties")
            || matches!(key, "dependencies" | "dependentSchemas")
    };
    match value {
        Value::Object(map) => map.iter().any(|(key, value)| speaks(key) || mentions_members(value)),
        Value::Array(list) => list.iter().any(mentions_members),
        _ => false,
    }
}
