//! Keywords of strings.

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
                formats::FormatRule::Pattern(regex) => patterns.push(whole(&regex, "format", path)?),
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

/// A regular expression of Rust's, of whole strings.
fn whole(regex: &str, keyword: &str, path: &str) -> Result<Option<String>> {
    let plain = quoted(regex, Scope::Whole).map_err(|why| GrammarError::refused(keyword, path, why))?;
    Ok(plain.map(|plain| format!("^(?:{plain})$")))
}
