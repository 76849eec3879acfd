//! Long patterns that stand in several places, under one name: the library parses a pattern each time that it meets one,
//! and that of a URI takes it a millisecond.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// Shorter patterns are parsed as fast as a reference is followed.
const LONG: usize = 200;

/// `root` with strings of the same long pattern as references to one definition.
pub(super) fn patterns(root: &mut Map<String, Value>) {
    let mut times: HashMap<String, usize> = HashMap::new();
    each(root, &mut |schema| {
        if let Some(text) = long(schema) {
            *times.entry(text).or_default() += 1;
        }
    });
    times.retain(|_, times| *times > 1);
    if times.is_empty() {
        return;
    }
    let mut shared: Vec<Value> = Vec::new();
    let mut names: HashMap<String, usize> = HashMap::new();
    each(root, &mut |schema| {
        let Some(text) = long(schema).filter(|text| times.contains_key(text)) else { return };
        let number = *names.entry(text).or_insert_with(|| {
            shared.push(schema.clone());
            shared.len() - 1
        });
        *schema = json!({ "$ref": format!("#/$defs/{}", name(number)) });
    });
    let defs = root.entry("$defs").or_insert_with(|| json!({}));
    if let Value::Object(defs) = defs {
        defs.extend(shared.into_iter().enumerate().map(|(number, schema)| (name(number), schema)));
    }
}

/// Definitions of the document have other names: they are numbered.
fn name(number: usize) -> String {
    format!("pattern{number}")
}

/// A string with a long pattern, as text.
fn long(schema: &Value) -> Option<String> {
    let map = schema.as_object()?;
    let pattern = map.get("pattern")?.as_str()?;
    let plain = |key: &String| matches!(key.as_str(), "type" | "pattern" | "minLength" | "maxLength");
    (pattern.len() >= LONG && map.get("type")? == "string" && map.keys().all(plain))
        .then(|| schema.to_string())
}

/// Does `work` to every schema inside of `schema` that stands alone.
fn each(schema: &mut Map<String, Value>, work: &mut dyn FnMut(&mut Value)) {
    for (key, value) in schema.iter_mut() {
        match (key.as_str(), value) {
            ("properties" | "patternProperties" | "$defs", Value::Object(map)) => {
                map.values_mut().for_each(|schema| alone(schema, work));
            }
            ("prefixItems", Value::Array(list)) => list.iter_mut().for_each(|schema| alone(schema, work)),
            ("items" | "additionalProperties", schema) => alone(schema, work),
            // The library makes one terminal of the branches, which references would keep apart.
            ("anyOf", Value::Array(list)) => {
                list.iter_mut().filter_map(Value::as_object_mut).for_each(|branch| each(branch, work));
            }
            _ => {}
        }
    }
}

fn alone(schema: &mut Value, work: &mut dyn FnMut(&mut Value)) {
    work(schema);
    if let Value::Object(map) = schema {
        each(map, work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grammar, SchemaOptions};

    #[test]
    fn a_long_pattern_in_several_places_is_written_once_and_means_the_same() {
        let uri = json!({ "type": "string", "format": "uri" });
        let of = |part: Value| json!({ "type": "object", "properties": { "a": part, "b": uri, "c": { "type": "array", "items": uri } } });
        let once = |schema: &Value| {
            let (value, _) = super::super::normalize(schema, SchemaOptions::default()).expect("a schema");
            value.to_string().matches("\"pattern\":").count()
        };
        let both = json!({ "anyOf": [uri, { "type": "null" }] });
        assert_eq!((once(&of(uri.clone())), once(&of(both.clone()))), (1, 2), "branches stay as they are");
        for part in [uri.clone(), both] {
            let grammar = Grammar::json_schema(&of(part), SchemaOptions::default()).expect("a schema");
            assert!(grammar.matches(r#"{"a": "urn:x", "b": "https://example.org/", "c": ["urn:a:b"]}"#));
            for wrong in [r#"{"a": "x y"}"#, r#"{"b": "no"}"#, r#"{"c": ["urn:x", "no"]}"#, r#"{"b": 1}"#] {
                assert!(!grammar.matches(wrong), "{wrong}");
            }
        }
    }
}
