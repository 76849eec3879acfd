//! How deep references lead.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::error::{GrammarError, Result};
use crate::limits;

/// The library recurses over references, the first time it meets one: the way down must not exhaust its stack.
pub(super) fn check(root: &Value, defs: &Map<String, Value>) -> Result<()> {
    fn references(value: &Value, depth: usize, out: &mut Vec<(String, usize)>) {
        match value {
            Value::Object(map) => {
                if let Some(name) = map.get("$ref").and_then(Value::as_str) {
                    out.push((name.trim_start_matches("#/$defs/").to_owned(), depth));
                }
                map.values().for_each(|value| references(value, depth + 1, out));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, depth + 1, out)),
            _ => {}
        }
    }
    let mut seen = HashSet::new();
    let mut todo = Vec::new();
    references(root, 0, &mut todo);
    todo.reverse();
    while let Some((name, depth)) = todo.pop() {
        if depth > limits::REFERENCE_DEPTH {
            return Err(GrammarError::too_large(
                "a chain of references nested deeper",
                limits::REFERENCE_DEPTH,
                "flatten it",
            ));
        }
        let Some(schema) = defs.get(&name).filter(|_| seen.insert(name.clone())) else { continue };
        let mut next = Vec::new();
        references(schema, depth + 1, &mut next);
        todo.extend(next.into_iter().rev());
    }
    Ok(())
}
