//! Objects closed against members that a schema does not name, as llama.cpp and xgrammar read schemas.
//!
//! JSON Schema lets in any others where nothing is said of them, and a weak model then writes members for as long as it may.
//! What is closed is still valid by the schema as it is written.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Keywords whose subschemas say more of the same value.
const IN_PLACE: [&str; 8] = ["allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "not"];
/// Keywords that say what becomes of members without a name.
const OTHERS: [&str; 3] = ["additionalProperties", "unevaluatedProperties", "patternProperties"];
/// Keywords that hold schemas by name, schemas in a list, and one schema.
const MAPS: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
const LISTS: [&str; 5] = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
const ONE: [&str; 8] = [
    "items",
    "additionalProperties",
    "contains",
    "if",
    "then",
    "else",
    "additionalItems",
    "unevaluatedItems",
];

/// `schema` with `additionalProperties: false` in every object that names its members in one place and says nothing of
/// others; with `unevaluatedProperties: false` where an `allOf` of plain objects names them. Objects whose members are told in
/// several other ways stay open: which of them may stand beside one another is not known before a value is there.
pub fn closed(schema: &Value) -> Value {
    let mut parts = SharedTargets::default();
    parts.find(schema, schema, false);
    while let Some(pointer) = parts.todo.pop() {
        if let Some(target) = schema.pointer(&pointer) {
            parts.find(schema, target, true);
        }
    }
    let mut made = schema.clone();
    if parts.is_elsewhere {
        return made;
    }
    close(&mut made, "", false, &parts.told);
    made
}

/// Targets of references that tell a part of an object's members, by their pointers.
#[derive(Default)]
struct SharedTargets {
    told: HashSet<String>,
    todo: Vec<String>,
    /// Some are named by an anchor or an address: which schema must stay open is not known here, so all do.
    is_elsewhere: bool,
}

impl SharedTargets {
    fn find(&mut self, root: &Value, schema: &Value, is_part: bool) {
        let Some(map) = schema.as_object() else { return };
        let shared = is_part || is_shared(map);
        let references = ["$ref", "$dynamicRef"].iter().filter_map(|key| map.get(*key)?.as_str());
        for reference in references.filter(|_| shared) {
            match reference.strip_prefix('#').filter(|pointer| root.pointer(pointer).is_some()) {
                None => self.is_elsewhere = true,
                Some(pointer) if self.told.insert(pointer.to_owned()) => self.todo.push(pointer.to_owned()),
                Some(_) => {}
            }
        }
        for (key, _, inner) in subschemas(map) {
            self.find(root, inner, IN_PLACE.contains(&key) && shared);
        }
    }
}

/// Whether schemas in place of this one tell its members together with it, or with one another.
fn is_shared(map: &Map<String, Value>) -> bool {
    let has = |key: &&str| map.contains_key(*key);
    let in_place = IN_PLACE.iter().filter(|key| has(key)).count() + usize::from(has(&"$ref"));
    has(&"allOf") || in_place > 1 || (in_place == 1 && (has(&"properties") || OTHERS.iter().any(has)))
}

/// The schemas inside, with their keyword and their place behind it.
fn subschemas(map: &Map<String, Value>) -> impl Iterator<Item = (&'static str, String, &Value)> {
    let named = MAPS.into_iter().filter_map(|key| Some((key, map.get(key)?.as_object()?)));
    let named = named.flat_map(|(key, map)| map.iter().map(move |(name, one)| (key, step(name), one)));
    let listed = LISTS.into_iter().filter_map(|key| Some((key, map.get(key)?.as_array()?)));
    let listed = listed.flat_map(|(key, list)| {
        list.iter().enumerate().map(move |(i, one)| (key, step(&i.to_string()), one))
    });
    let one = ONE.into_iter().filter_map(|key| Some((key, String::new(), map.get(key)?)));
    named.chain(listed).chain(one)
}

fn step(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn close(schema: &mut Value, place: &str, is_part: bool, told: &HashSet<String>) {
    let Some(map) = schema.as_object() else { return };
    let is_part = is_part || told.contains(place);
    let shared = is_part || is_shared(map);
    let inside: Vec<_> = subschemas(map).map(|(key, at, _)| (key, at)).collect();
    let keyword = (!is_part).then(|| closing(map)).flatten();
    for (key, at) in inside {
        let place = format!("{place}/{key}{at}");
        if let Some(inner) = schema.pointer_mut(&format!("/{key}{at}")) {
            close(inner, &place, IN_PLACE.contains(&key) && shared, told);
        }
    }
    if let (Some(keyword), Some(map)) = (keyword, schema.as_object_mut()) {
        map.insert(keyword.to_owned(), Value::Bool(false));
    }
}

/// The keyword that closes an object; None for what is none, or stays open.
fn closing(map: &Map<String, Value>) -> Option<&'static str> {
    let has = |key: &str| map.contains_key(key);
    if OTHERS.iter().any(|key| has(key)) || has("$ref") || has("$dynamicRef") {
        return None;
    }
    let mut in_place = IN_PLACE.iter().filter(|key| has(key));
    match (in_place.next(), in_place.next()) {
        (None, _) => names_enough(map).then_some("additionalProperties"),
        (Some(&"allOf"), None) => is_plain(map.get("allOf")?).then_some("unevaluatedProperties"),
        _ => None,
    }
}

/// Whether an object names its members, among them all that it needs.
fn names_enough(map: &Map<String, Value>) -> bool {
    let Some(named) = map.get("properties").and_then(Value::as_object) else { return false };
    let required = map.get("required").and_then(Value::as_array);
    let least = map.get("minProperties").and_then(Value::as_u64).unwrap_or(0);
    let is_named = |name: &Value| name.as_str().is_some_and(|name| named.contains_key(name));
    required.is_none_or(|names| names.iter().all(is_named)) && least <= named.len() as u64
}

/// Whether each of a list tells its members itself, or is a reference.
fn is_plain(all: &Value) -> bool {
    let plain = |one: &Value| {
        let map = one.as_object();
        map.is_some_and(|map| !IN_PLACE.iter().chain(&OTHERS).any(|key| map.contains_key(*key)))
    };
    all.as_array().is_some_and(|all| all.iter().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grammar, SchemaOptions};
    use serde_json::json;

    /// `good` satisfies `schema` closed; `bad` does not, and does as it is written.
    fn judge(schema: Value, good: &[Value], bad: &[Value]) {
        let open = Grammar::json_schema(&schema, SchemaOptions::default()).expect("a schema");
        let options = SchemaOptions { closed: true, ..SchemaOptions::default() };
        let grammar = Grammar::json_schema(&schema, options).expect("a schema");
        for value in good {
            assert!(grammar.matches(value.to_string()), "{value} by {schema}");
            assert!(open.matches(value.to_string()), "{value} by {schema} as it is written");
        }
        for value in bad {
            assert!(!grammar.matches(value.to_string()), "{value} by {schema}");
            assert!(open.matches(value.to_string()), "{value} by {schema} as it is written");
        }
    }

    fn member(name: &str) -> Value {
        json!({ "type": "object", "properties": { name: { "type": "null" } }, "required": [name] })
    }

    #[test]
    fn objects_are_closed_where_their_members_are_named() {
        judge(member("a"), &[json!({ "a": null })], &[json!({ "a": null, "b": 1 })]);
        judge(
            json!({ "type": "array", "items": member("a") }),
            &[json!([{ "a": null }])],
            &[json!([{ "a": null, "b": 1 }])],
        );
        judge(
            json!({ "anyOf": [member("a"), { "type": "null" }] }),
            &[json!({ "a": null }), json!(null)],
            &[json!({ "a": null, "b": 1 })],
        );
        let link = json!({ "type": "object", "properties": { "next": { "$ref": "#/$defs/a~1b" } } });
        let linked = json!({ "$ref": "#/$defs/a~1b", "$defs": { "a/b": link } });
        judge(linked, &[json!({ "next": { "next": {} } })], &[json!({ "next": { "x": 1 } })]);
    }

    #[test]
    fn what_a_schema_says_of_others_stays() {
        judge(json!({ "type": "object" }), &[json!({ "a": 1 })], &[]);
        let others =
            json!({ "type": "object", "properties": {}, "additionalProperties": { "type": "null" } });
        judge(others, &[json!({ "b": null })], &[]);
    }

    #[test]
    fn parts_of_an_object_do_not_close_one_another() {
        let both = json!({ "a": null, "b": null });
        let more = json!({ "a": null, "b": null, "c": 1 });
        let base = json!({ "base": member("a") });
        for schema in [
            json!({ "allOf": [member("a"), member("b")] }),
            json!({ "$defs": base, "allOf": [{ "$ref": "#/$defs/base" }, member("b")] }),
        ] {
            judge(schema, std::slice::from_ref(&both), std::slice::from_ref(&more));
        }
        // Told in two ways: stays open.
        let a = json!({ "a": { "type": "null" } });
        let other = json!({ "base": member("b") });
        for schema in [
            json!({ "type": "object", "properties": a, "anyOf": [member("b"), member("c")] }),
            json!({ "$defs": other, "properties": a, "allOf": [{ "anyOf": [{ "$ref": "#/$defs/base" }] }] }),
        ] {
            judge(schema, &[both.clone(), more.clone()], &[]);
        }
    }

    #[test]
    fn objects_that_need_members_without_a_name_stay_open() {
        let more = json!({ "a": null, "b": null });
        let a = json!({ "a": { "type": "null" } });
        judge(
            json!({ "type": "object", "properties": a, "required": ["a", "b"] }),
            std::slice::from_ref(&more),
            &[],
        );
        judge(
            json!({ "type": "object", "properties": {}, "minProperties": 1 }),
            &[json!({ "b": null })],
            &[],
        );
        let anchored =
            json!({ "$anchor": "base", "type": "object", "properties": { "b": { "type": "null" } } });
        judge(
            json!({ "$defs": { "base": anchored }, "properties": a, "allOf": [{ "$ref": "#base" }] }),
            &[more],
            &[],
        );
    }
}
