//! Bounds of how deep sources are nested: whoever reads or compiles them recurses so deep.

use serde_json::Value;

use crate::limits;

/// A bound of how deep a recursion over `schema` goes: each reference may lead down its whole depth once more. What is
/// beyond [`limits::SHALLOW`] is not told apart.
pub(crate) fn of_schema(schema: &Value) -> usize {
    fn walk(value: &Value, depth: usize, references: &mut usize) -> usize {
        if depth > limits::SHALLOW {
            return depth;
        }
        match value {
            Value::Object(map) => {
                *references += usize::from(map.contains_key("$ref") || map.contains_key("$dynamicRef"));
                map.values().map(|value| walk(value, depth + 1, references)).max().unwrap_or(depth)
            }
            Value::Array(list) => {
                list.iter().map(|value| walk(value, depth + 1, references)).max().unwrap_or(depth)
            }
            _ => depth,
        }
    }
    let mut references = 0;
    walk(schema, 1, &mut references) * (1 + references)
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
        assert_eq!((of_schema(&flat), of_schema(&chain)), (3, 12));
        assert_eq!(of_text("start: (a | [b])\na: \"x\"{2}\n"), 5);
    }
}
