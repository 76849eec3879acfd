//! Keywords of arrays.

use serde_json::{Map, Value, json};

use super::keywords::{combines, counts, may_be, object_of, step};
use super::rewritten::Rewritten;
use super::walk::Walk;
use crate::error::Result;

impl Walk<'_> {
    pub(super) fn arrays(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        depth: usize,
        out: &mut Rewritten,
    ) -> Result<()> {
        counts(map, &["minItems", "maxItems"], path, out)?;
        let listed = |key: &str| map.get(key).filter(|v| v.is_array());
        let (first, rest) = match listed("items") {
            // Draft 2019-09 and older.
            Some(items) => {
                (Some(("items", items)), map.get("additionalItems").map(|v| ("additionalItems", v)))
            }
            None => {
                (map.get("prefixItems").map(|v| ("prefixItems", v)), map.get("items").map(|v| ("items", v)))
            }
        };
        if let Some((key, list)) = first {
            let schemas = self.list(list, &step(path, key), depth)?;
            out.plain.insert("prefixItems".into(), Value::Array(schemas));
        }
        let rest = rest.or_else(|| self.plain_unevaluated_items(map));
        if let Some((key, schema)) = rest {
            out.plain.insert("items".into(), self.schema(schema, &step(path, key), depth)?);
        }
        self.array_leftovers(map, path, out)
    }

    /// `unevaluatedItems` where nothing else could evaluate items.
    fn plain_unevaluated_items<'m>(&self, map: &'m Map<String, Value>) -> Option<(&'static str, &'m Value)> {
        let free = !combines(map) && !map.contains_key("contains");
        map.get("unevaluatedItems").filter(|_| free).map(|v| ("unevaluatedItems", v))
    }

    fn array_leftovers(&mut self, map: &Map<String, Value>, path: &str, out: &mut Rewritten) -> Result<()> {
        if !may_be(map, "array") {
            return Ok(());
        }
        let at_most_one = map.get("maxItems").and_then(Value::as_u64).is_some_and(|n| n <= 1)
            || (out.plain.get("items") == Some(&Value::Bool(false))
                && out.plain.get("prefixItems").and_then(Value::as_array).is_none_or(|list| list.len() <= 1));
        if map.get("uniqueItems") == Some(&Value::Bool(true)) && !at_most_one {
            self.refuse(
                "uniqueItems",
                path,
                "a grammar cannot compare items; remove it, or set maxItems to 1",
            )?;
        }
        if let Some(schema) = map.get("contains") {
            self.contains(schema, map, path, out)?;
        }
        let open = map.get("unevaluatedItems").is_some_and(|v| *v != Value::Bool(true));
        if open && self.plain_unevaluated_items(map).is_none() && !map.contains_key("items") {
            self.refuse(
                "unevaluatedItems",
                path,
                "which items are evaluated is not known; use items instead",
            )?;
        }
        Ok(())
    }

    fn contains(
        &mut self,
        schema: &Value,
        map: &Map<String, Value>,
        path: &str,
        out: &mut Rewritten,
    ) -> Result<()> {
        let count = |key: &str| map.get(key).and_then(Value::as_u64);
        let (least, most) = (count("minContains").unwrap_or(1), count("maxContains"));
        if least == 0 && most.is_none() {
            return Ok(());
        }
        let anything = *schema == Value::Bool(true) || schema.as_object().is_some_and(Map::is_empty);
        if !anything {
            return self.refuse(
                "contains",
                path,
                "a grammar cannot count items of a kind; use items or prefixItems",
            );
        }
        let mut limits = object_of([("minItems", json!(least))]);
        limits.extend(most.map(|n| ("maxItems".to_owned(), json!(n))));
        out.also.push(Value::Object(limits));
        Ok(())
    }
}
