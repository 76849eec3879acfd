//! A schema while it is rewritten.

use serde_json::{Map, Value};

/// A schema while it is rewritten.
#[derive(Default)]
pub(super) struct Rewritten {
    /// Keywords about the value itself.
    pub plain: Map<String, Value>,
    /// Schemas that must hold beside it.
    pub also: Vec<Value>,
    /// Keywords that combine schemas; after the others, for the library applies keywords in their order.
    pub combined: Map<String, Value>,
}

impl Rewritten {
    /// As one schema.
    pub fn assembled(mut self) -> Value {
        if !self.also.is_empty() {
            match self.combined.get_mut("allOf") {
                Some(Value::Array(list)) => list.append(&mut self.also),
                _ => {
                    self.combined.insert("allOf".into(), Value::Array(self.also));
                }
            }
        }
        self.plain.extend(self.combined);
        Value::Object(self.plain)
    }
}
