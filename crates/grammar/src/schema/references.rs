//! References.

use serde_json::{Map, Value, json};

use super::keywords::step;
use super::rewritten::Rewritten;
use super::walk::Walk;
use crate::error::{GrammarError, Result};

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
