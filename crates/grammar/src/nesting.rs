//! Bounds of how deep sources are nested: whoever reads or compiles them recurses so deep.

use serde_json::Value;

use crate::limits;

/// Of a schema as it is written: references are followed where it is negated.
pub(crate) fn of_schema(schema: &Value) -> usize {
    const FOLLOWED: usize = 12;
    let mut references = 0;
    levels(schema, 1, &mut references) * (1 + references.min(FOLLOWED))
}

/// Of a schema as the library gets it, which reads a definition where it meets the first reference to it.
pub(crate) fn of_lowered(schema: &Value) -> usize {
    let Some(map) = schema.as_object() else { return 1 };
    let own = map.iter().filter(|(key, _)| *key != "$defs").map(|(_, value)| levels(value, 2, &mut 0));
    let defs = map.get("$defs").and_then(Value::as_object).into_iter().flat_map(|defs| defs.values());
    own.max().unwrap_or(1) + defs.map(|schema| levels(schema, 1, &mut 0)).sum::<usize>()
}

/// Levels of `value`, which is one of `depth` itself, as far as [`limits::SHALLOW`]; counts references.
fn levels(value: &Value, depth: usize, references: &mut usize) -> usize {
    if depth > limits::SHALLOW {
        return depth;
    }
    let mut deeper = |value| levels(value, depth + 1, references);
    match value {
        Value::Object(map) => {
            let deepest = map.values().map(&mut deeper).max().unwrap_or(depth);
            *references += usize::from(map.contains_key("$ref") || map.contains_key("$dynamicRef"));
            deepest
        }
        Value::Array(list) => list.iter().map(deeper).max().unwrap_or(depth),
        _ => depth,
    }
}

/// Brackets that open in a grammar, and its lines: groups and rules nest no deeper.
pub(crate) fn of_text(text: &str) -> usize {
    text.bytes().filter(|byte| b"([{\n".contains(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grammar, SchemaOptions};
    use serde_json::json;

    /// Nested as deep as is done in place.
    fn nested(wrap: impl Fn(Value) -> Value) -> Value {
        let mut schema = json!({ "type": "string", "pattern": "^((((((a?))))))+$" });
        loop {
            let next = wrap(schema.clone());
            if of_schema(&next) > limits::SHALLOW {
                return schema;
            }
            schema = next;
        }
    }

    #[test]
    fn what_is_shallow_compiles_on_a_small_stack() {
        let schemas = [
            nested(|s| json!({ "properties": { "a": s }, "required": ["a"] })),
            nested(|s| json!({ "items": { "anyOf": [s, { "type": "null" }] } })),
            nested(|s| json!({ "allOf": [s, { "description": "x" }] })),
            nested(|s| json!({ "not": { "not": s } })),
            nested(
                |s| json!({ "oneOf": [{ "type": "object", "properties": { "b": s } }, { "type": "array" }] }),
            ),
        ];
        let small = std::thread::Builder::new().stack_size(1 << 20);
        let thread = small.spawn(move || {
            for schema in &schemas {
                let made = Grammar::json_schema(schema, SchemaOptions::default());
                made.and_then(|grammar| grammar.check()).expect("a grammar");
            }
            let text = format!("start: {}\"a\"{}", "(".repeat(24), ")".repeat(24));
            Grammar::lark(&text).expect("a grammar");
        });
        thread.expect("a thread").join().expect("no panic");
    }

    #[test]
    fn each_reference_may_lead_down_the_whole_depth() {
        let flat = json!({ "properties": { "a": {}, "b": {} } });
        let chain = json!({ "properties": { "a": { "$ref": "#" }, "b": { "$ref": "#" } } });
        assert_eq!((of_schema(&flat), of_schema(&chain)), (3, 4 * 3));
        assert_eq!(
            of_lowered(&json!({ "$ref": "#/$defs/a", "$defs": { "a": flat, "b": chain } })),
            2 + 3 + 4
        );
        assert_eq!(of_text("start: (a | [b])\na: \"x\"{2}\n"), 5);
    }
}
