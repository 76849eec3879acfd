//! Keywords of objects.

use serde_json::{Map, Value, json};

use super::keywords::{counts, entries, may_be, step};
use super::object;
use super::rewritten::Rewritten;
use super::strings::pattern;
use super::walk::Walk;
use crate::error::{GrammarError, Result};

impl Walk<'_> {
    pub(super) fn objects(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        depth: usize,
        out: &mut Rewritten,
    ) -> Result<()> {
        counts(map, &["minProperties", "maxProperties"], path, out)?;
        if let Some(value) = map.get("properties") {
            let at = step(path, "properties");
            let required = map.get("required").and_then(Value::as_array).map_or(0, Vec::len);
            let optional = value.as_object().map_or(0, Map::len).saturating_sub(required);
            self.alternatives(optional, "properties", path)?;
            let mut schemas = Map::new();
            for (name, schema) in entries(value, &at)? {
                schemas.insert(name.clone(), self.schema(schema, &step(&at, name), depth)?);
            }
            out.plain.insert("properties".into(), Value::Object(schemas));
        }
        if let Some(value) = map.get("patternProperties") {
            let schemas = self.pattern_properties(value, &step(path, "patternProperties"), depth)?;
            out.plain.insert("patternProperties".into(), Value::Object(schemas));
        }
        if let Some(schema) = map.get("additionalProperties") {
            let schema = self.schema(schema, &step(path, "additionalProperties"), depth)?;
            out.plain.insert("additionalProperties".into(), schema);
        }
        if let Some(names) = map.get("required").filter(|names| !names.is_boolean()) {
            let is_name = |list: &Vec<Value>| list.iter().all(Value::is_string);
            if !names.as_array().is_some_and(is_name) {
                return Err(GrammarError::schema(step(path, "required"), "must be a list of names"));
            }
            out.plain.insert("required".into(), names.clone());
        }
        self.countable(map, path, out)
    }

    fn pattern_properties(&mut self, value: &Value, at: &str, depth: usize) -> Result<Map<String, Value>> {
        let mut schemas = Map::new();
        for (name, schema) in entries(value, at)? {
            let schema = self.schema(schema, &step(at, name), depth)?;
            let pattern = pattern(name, "patternProperties", at);
            // A pattern that matches no name asks for nothing.
            let Some(Some(pattern)) = self.or_leave_out(pattern)? else { continue };
            let both = match schemas.remove(&pattern) {
                Some(other) => json!({ "allOf": [other, schema] }),
                None => schema,
            };
            schemas.insert(pattern, both);
        }
        Ok(schemas)
    }

    /// Members that the schema does not name could have one name twice, and would be counted twice.
    fn countable(&mut self, map: &Map<String, Value>, path: &str, out: &mut Rewritten) -> Result<()> {
        let least = out.plain.get("minProperties").and_then(Value::as_u64).unwrap_or(0);
        let required = map.get("required").and_then(Value::as_array).map_or(0, Vec::len) as u64;
        let closed = map.get("additionalProperties") == Some(&Value::Bool(false))
            && !map.contains_key("patternProperties");
        if least.saturating_sub(required) > 1 && !closed && may_be(map, "object") {
            out.plain.remove("minProperties");
            let why = "a grammar cannot tell whether names differ; name the members in required";
            self.refuse("minProperties", path, why)?;
        }
        Ok(())
    }

    /// Keywords of objects that are written with others.
    pub(super) fn members(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        depth: usize,
        out: &mut Rewritten,
    ) -> Result<()> {
        if !may_be(map, "object") {
            return Ok(());
        }
        let mut more = Vec::new();
        let asked = object::dependencies(map, path);
        more.extend(self.or_leave_out(asked)?.unwrap_or_default());
        if let Some(schema) = map.get("propertyNames") {
            let names = object::names(schema, path);
            more.extend(self.or_leave_out(names)?.flatten());
        }
        if map.contains_key("unevaluatedProperties") {
            match object::unevaluated(map, &|reference| self.raw(reference, path)) {
                Some(schema) => more.extend(schema),
                None => {
                    let why =
                        "which members are evaluated depends on the value; use additionalProperties instead";
                    self.refuse("unevaluatedProperties", path, why)?;
                }
            }
        }
        for schema in more {
            let schema = self.schema(&schema, path, depth)?;
            out.also.push(schema);
        }
        Ok(())
    }
}
