//! The walk over a schema, one method for each kind of keyword.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value, json};

use super::keywords::{ANNOTATIONS, ASSERTIONS, step};
use super::rewritten::Rewritten;
use super::{depth, negate, numbers, one_of, refs, values};
use crate::error::{GrammarError, Result, place};
use crate::limits;

const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "integer", "string"];

/// References looked through while a schema is negated.
const NEGATED_DEPTH: usize = 12;

pub(super) struct Walk<'a> {
    root: &'a Value,
    lenient: bool,
    /// Draft 7 and older: `$ref` replaces what stands beside it.
    legacy: bool,
    pub(super) index: refs::Index,
    /// Definitions by the pointer they were read from.
    pub(super) named: HashMap<String, String>,
    pub(super) pending: VecDeque<String>,
    divisors: numbers::Divisors,
    subschemas: usize,
    /// See [`limits::ALTERNATIVES`].
    alternatives: usize,
    pub(super) warnings: Vec<String>,
}

impl<'a> Walk<'a> {
    pub fn new(root: &'a Value, lenient: bool) -> Result<Walk<'a>> {
        let draft = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let legacy = ["draft-03", "draft-04", "draft-06", "draft-07"].iter().any(|name| draft.contains(name));
        Ok(Walk {
            root,
            lenient,
            legacy,
            index: refs::Index::new(root),
            named: HashMap::new(),
            pending: VecDeque::new(),
            divisors: numbers::Divisors::default(),
            subschemas: 0,
            alternatives: 0,
            warnings: Vec::new(),
        })
    }

    pub fn into_warnings(self) -> Vec<String> {
        self.warnings
    }

    /// The whole document, with every schema that is referred to under `$defs`.
    pub fn document(&mut self) -> Result<Value> {
        let root = self.schema(self.root, "", 0)?;
        let mut defs = Map::new();
        while let Some(pointer) = self.pending.pop_front() {
            let target = self.target(&pointer)?;
            let schema = self.schema(&target, &pointer, 0)?;
            defs.insert(self.named[&pointer].clone(), schema);
        }
        if defs.is_empty() {
            return Ok(root);
        }
        depth::check(&root, &defs)?;
        let Value::Object(mut map) = root else { return Ok(root) };
        map.insert("$defs".into(), Value::Object(defs));
        Ok(Value::Object(map))
    }

    pub(super) fn target(&self, pointer: &str) -> Result<Value> {
        let missing = || GrammarError::schema(pointer, "is referred to and not there");
        self.root.pointer(pointer).cloned().ok_or_else(missing)
    }

    pub(super) fn schema(&mut self, schema: &Value, path: &str, depth: usize) -> Result<Value> {
        self.subschemas += 1;
        if self.subschemas > limits::SUBSCHEMAS {
            return Err(GrammarError::too_large(
                "a schema of more subschemas",
                limits::SUBSCHEMAS,
                "make it smaller",
            ));
        }
        if depth > limits::SCHEMA_DEPTH {
            return Err(GrammarError::too_large(
                "a schema nested deeper",
                limits::SCHEMA_DEPTH,
                "flatten it",
            ));
        }
        match schema {
            Value::Bool(_) => Ok(schema.clone()),
            Value::Object(map) => self.object(map, path, depth + 1),
            _ => Err(GrammarError::schema(path, "a schema is an object, true or false")),
        }
    }

    fn object(&mut self, map: &Map<String, Value>, path: &str, depth: usize) -> Result<Value> {
        let mut out = Rewritten::default();
        let only_ref = self.legacy && map.contains_key("$ref");
        if !only_ref {
            self.types(map, path, &mut out)?;
            self.numbers(map, path, &mut out)?;
            self.strings(map, path, &mut out)?;
            self.arrays(map, path, depth, &mut out)?;
            self.objects(map, path, depth, &mut out)?;
            self.members(map, path, depth, &mut out)?;
            self.values(map, path, &mut out)?;
            self.combinations(map, path, depth, &mut out)?;
            self.conditions(map, path, depth, &mut out)?;
        }
        self.references(map, path, &mut out)?;
        self.note_unknown(map, path);
        Ok(out.assembled())
    }

    /// Leaves a keyword out with a warning, or refuses the schema.
    pub(super) fn refuse(&mut self, keyword: &str, path: &str, why: &str) -> Result<()> {
        let error = GrammarError::refused(keyword, path, why);
        if !self.lenient {
            return Err(error);
        }
        self.warnings.push(format!("left out: {error}"));
        Ok(())
    }

    /// As [`Walk::refuse`], for a refusal that came from elsewhere.
    pub(super) fn or_leave_out<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error @ GrammarError::Refused { .. }) if self.lenient => {
                self.warnings.push(format!("left out: {error}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn note_unknown(&mut self, map: &Map<String, Value>, path: &str) {
        let known = |key: &str| {
            ANNOTATIONS.contains(&key)
                || ASSERTIONS.contains(&key)
                || key.starts_with("x-")
                || key.starts_with('$')
        };
        let unknown = map.keys().filter(|key| !known(key));
        self.warnings.extend(unknown.map(|key| format!("{}: no keyword of JSON schema", step(path, key))));
    }

    fn types(&mut self, map: &Map<String, Value>, path: &str, out: &mut Rewritten) -> Result<()> {
        let Some(value) = map.get("type") else { return Ok(()) };
        let wrong =
            || GrammarError::schema(step(path, "type"), format!("must be one or several of {TYPES:?}"));
        let names: Vec<&str> = match value {
            Value::String(name) => vec![name],
            Value::Array(names) if !names.is_empty() => {
                names.iter().map(|n| n.as_str().ok_or_else(wrong)).collect::<Result<_>>()?
            }
            _ => return Err(wrong()),
        };
        if names.iter().any(|name| !TYPES.contains(name)) {
            return Err(wrong());
        }
        // One spelling for each number: whole ones are numbers.
        let has_number = names.contains(&"number");
        let mut kept: Vec<&str> = names.into_iter().filter(|n| !(has_number && *n == "integer")).collect();
        kept.dedup();
        out.plain.insert("type".into(), if let [name] = kept[..] { json!(name) } else { json!(kept) });
        Ok(())
    }

    fn numbers(&mut self, map: &Map<String, Value>, path: &str, out: &mut Rewritten) -> Result<()> {
        let bounds = numbers::bounds(map, path);
        for (keyword, value) in self.or_leave_out(bounds)?.unwrap_or_default() {
            out.plain.insert(keyword.into(), value);
        }
        if let Some(value) = map.get("multipleOf") {
            let added = self.divisors.add(value, path);
            if self.or_leave_out(added)?.is_some() {
                out.plain.insert("multipleOf".into(), value.clone());
            }
        }
        Ok(())
    }

    fn values(&mut self, map: &Map<String, Value>, path: &str, out: &mut Rewritten) -> Result<()> {
        if let Some(value) = map.get("const") {
            let checked = values::check(value, "const", path);
            if self.or_leave_out(checked)?.is_some() {
                out.combined.insert("const".into(), value.clone());
            }
        }
        if let Some(value) = map.get("enum") {
            let list = values::list(value, path)?;
            let checked = list.iter().try_for_each(|value| values::check(value, "enum", path));
            if self.or_leave_out(checked)?.is_some() {
                out.combined.insert("enum".into(), value.clone());
            }
        }
        Ok(())
    }

    /// Counts the alternatives that `keyword` of the schema at `path` has.
    pub(super) fn alternatives(&mut self, count: usize, keyword: &str, path: &str) -> Result<()> {
        self.alternatives = self.alternatives.saturating_add(count.saturating_mul(count));
        if self.alternatives > limits::ALTERNATIVES {
            let at = place(path);
            let what = format!(
                "{keyword} at {at}: a schema with {count} optional members or branches there, squares added up,"
            );
            let hint = "make members required, or split the schema";
            return Err(GrammarError::too_large(what, limits::ALTERNATIVES, hint));
        }
        Ok(())
    }

    pub(super) fn list(&mut self, value: &Value, at: &str, depth: usize) -> Result<Vec<Value>> {
        let list = value.as_array().ok_or_else(|| GrammarError::schema(at, "must be a list of schemas"))?;
        list.iter().enumerate().map(|(i, schema)| self.schema(schema, &step(at, i), depth)).collect()
    }

    fn combinations(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        depth: usize,
        out: &mut Rewritten,
    ) -> Result<()> {
        for keyword in ["allOf", "anyOf"] {
            if let Some(value) = map.get(keyword) {
                if keyword == "anyOf" {
                    self.alternatives(value.as_array().map_or(0, Vec::len), keyword, path)?;
                }
                let schemas = self.list(value, &step(path, keyword), depth)?;
                out.combined.insert(keyword.into(), Value::Array(schemas));
            }
        }
        let Some(value) = map.get("oneOf") else { return Ok(()) };
        let at = step(path, "oneOf");
        let branches =
            value.as_array().ok_or_else(|| GrammarError::schema(&at, "must be a list of schemas"))?;
        self.alternatives(branches.len(), "oneOf", path)?;
        let any_of = one_of::as_any_of(branches, &|reference| self.raw(reference, path));
        let schemas = match &any_of {
            Some(branches) => self.list(&json!(branches), &at, depth)?,
            None => {
                let why = "two branches may hold at once; use anyOf, or tell them apart by a required member with a const";
                self.refuse("oneOf", path, why)?;
                self.list(value, &at, depth)?
            }
        };
        // A name of its own, where `anyOf` is there as well.
        out.also.push(json!({ "anyOf": schemas }));
        Ok(())
    }

    fn conditions(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        depth: usize,
        out: &mut Rewritten,
    ) -> Result<()> {
        let within = negate::types_of(map);
        let forbid = |walk: &Self, schema: &Value| {
            negate::negated(schema, within.as_deref(), &|reference| walk.raw(reference, path), NEGATED_DEPTH)
        };
        let mut more = Vec::new();
        if let Some(schema) = map.get("not") {
            match forbid(self, schema) {
                Some(schema) => more.push(schema),
                None => self.refuse(
                    "not",
                    path,
                    "what it forbids has no exact form as a schema; say what is allowed",
                )?,
            }
        }
        if let Some(condition) =
            map.get("if").filter(|_| map.contains_key("then") || map.contains_key("else"))
        {
            let part = |key: &str| map.get(key).cloned().unwrap_or(Value::Bool(true));
            match forbid(self, condition) {
                Some(not) => more.push(json!({ "anyOf": [
                    { "allOf": [condition, part("then")] },
                    { "allOf": [not, part("else")] },
                ] })),
                None => self.refuse("if", path, "its opposite has no exact form as a schema; use anyOf")?,
            }
        }
        for schema in more {
            let schema = self.schema(&schema, path, depth)?;
            out.also.push(schema);
        }
        Ok(())
    }

    /// The schema that a reference stands for, as the document has it; None for those with a base of their own, whose
    /// references mean something else there.
    pub(super) fn raw(&self, reference: &str, path: &str) -> Option<Value> {
        let pointer = self.index.resolve(reference, path)?;
        let same = self.index.base(&pointer) == self.index.base(path);
        self.root.pointer(&pointer).filter(|_| same).cloned()
    }
}
