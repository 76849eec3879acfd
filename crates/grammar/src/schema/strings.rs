//! Keywords of strings.

use std::{collections::BTreeMap, sync::Mutex};

use serde_json::{Map, Value, json};

use super::keywords::{counts, object_of, step};
use super::rewritten::Rewritten;
use super::walk::Walk;
use super::{ecma, formats};
use crate::error::{GrammarError, Result};
use crate::regex::{Scope, quoted};

impl Walk<'_> {
    pub(super) fn strings(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        out: &mut Rewritten,
    ) -> Result<()> {
        counts(map, &["minLength", "maxLength"], path, out)?;
        let mut patterns = Vec::new();
        if let Some(value) = map.get("pattern") {
            let text = value.as_str();
            let text = text.ok_or_else(|| GrammarError::schema(step(path, "pattern"), "must be a string"))?;
            let pattern = pattern(text, "pattern", path);
            patterns.extend(self.or_leave_out(pattern)?);
        }
        if let Some(name) = map.get("format").and_then(Value::as_str) {
            match formats::lookup(name) {
                formats::FormatRule::Pattern(regex) => patterns.push(Some(written(name, &regex, path)?)),
                formats::FormatRule::Refused(why) => {
                    self.refuse("format", path, &format!("{name}: {why}"))?
                }
                formats::FormatRule::Unknown => {
                    self.warnings
                        .push(format!("{}: {name:?} is not known and not enforced", step(path, "format")));
                }
            }
        }
        for (i, pattern) in patterns.into_iter().enumerate() {
            let schema = match pattern {
                Some(pattern) => object_of([("pattern", json!(pattern))]),
                None => object_of([("type", json!(["null", "boolean", "object", "array", "number"]))]),
            };
            if i == 0 && schema.contains_key("pattern") {
                out.plain.extend(schema);
            } else {
                out.also.push(Value::Object(schema));
            }
        }
        Ok(())
    }
}

/// A pattern of the document, anchored and without anchors inside; None when it matches nothing.
pub(super) fn pattern(text: &str, keyword: &str, path: &str) -> Result<Option<String>> {
    let refused = |why: String| GrammarError::refused(keyword, path, format!("{text:?}: {why}"));
    let rust = ecma::to_rust(text).map_err(refused)?;
    let plain = quoted(&rust, Scope::Somewhere).map_err(refused)?;
    Ok(plain.map(|plain| format!("^(?:{plain})$")))
}

/// Patterns of the formats that schemas have most, as normalized schemas write them.
pub(crate) fn patterns_of_formats() -> Vec<String> {
    let formats = ["date", "date-time", "time", "email", "hostname", "ipv4", "uri", "uuid"];
    let pattern = |name| match formats::lookup(name) {
        formats::FormatRule::Pattern(regex) => written(name, &regex, "").ok(),
        _ => None,
    };
    formats.into_iter().filter_map(pattern).collect()
}

/// Patterns of the formats that were met: that of an address takes half a millisecond.
static WRITTEN: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// The pattern of the format `name`, whose expression is `regex`.
fn written(name: &str, regex: &str, path: &str) -> Result<String> {
    let refused = |why: &str| GrammarError::refused("format", path, why);
    let mut written = WRITTEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(pattern) = written.get(name) {
        return Ok(pattern.clone());
    }
    let plain = quoted(regex, Scope::Whole).map_err(|why| refused(&why))?;
    let pattern = format!("^(?:{})$", plain.ok_or_else(|| refused("no string has it"))?);
    written.insert(name.to_owned(), pattern.clone());
    Ok(pattern)
}
