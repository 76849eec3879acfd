//! References, and how deep they lead.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::step;
use super::walk::{Rewritten, Walk, too_large};
use crate::error::{GrammarError, Result};
use crate::limits;

impl Walk<'_> {
    pub(super) fn references(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        out: &mut Rewritten,
    ) -> Result<()> {
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(value) = map.get(keyword) else { continue };
            let wrong = || GrammarError::schema(step(path, keyword), "must be a string");
            let reference = value.as_str().ok_or_else(wrong)?;
            let is_static = match keyword {
                "$ref" => true,
                "$dynamicRef" => self.index.is_static(reference.rsplit('#').next().unwrap_or_default()),
                _ => self.index.is_single(),
            };
            if !is_static {
                self.refuse(keyword, path, "it may lead to several schemas")?;
                continue;
            }
            let Some(pointer) = self.index.resolve(reference, path) else {
                let why = format!("{reference:?} leads out of the document; put the schema into $defs");
                self.refuse(keyword, path, &why)?;
                continue;
            };
            let target = self.define(&pointer)?;
            if out.combined.contains_key("$ref") {
                out.also.push(target);
            } else {
                out.combined.extend(target.as_object().cloned().unwrap_or_default());
            }
        }
        Ok(())
    }

    /// A reference to the schema at `pointer`, which will be rewritten once.
    fn define(&mut self, pointer: &str) -> Result<Value> {
        self.target(pointer)?;
        let name = match self.named.get(pointer) {
            Some(name) => name.clone(),
            None => {
                let name = format!("d{}", self.named.len());
                self.named.insert(pointer.to_owned(), name.clone());
                self.pending.push_back(pointer.to_owned());
                name
            }
        };
        Ok(json!({ "$ref": format!("#/$defs/{name}") }))
    }
}

/// The library recurses over references, the first time it meets one: the way down must not exhaust its stack.
pub(super) fn check_depth(root: &Value, defs: &Map<String, Value>) -> Result<()> {
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
            return Err(too_large(
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
