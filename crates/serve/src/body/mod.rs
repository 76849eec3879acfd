//! JSON bodies, read against a field table.

mod budget;
mod scalar;
mod table;
mod tree;

pub use budget::{BodyBudget, BodyShare, memory};
pub use scalar::{sampling_value, texts};
#[cfg(test)]
pub use table::COMMON;
pub use table::{FieldSpec, FieldTable, FieldUsage, harmless, refused, taken};
pub use tree::json_of;

use crate::error::ApiError;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A JSON object whose names are known and legal. Fields are taken out of it; null is the same as absent.
#[derive(Debug)]
pub struct Body {
    map: Map<String, Value>,
    table: &'static FieldTable,
    /// Path of the object inside the request's body: empty, or with a dot at its end.
    path: String,
    ignored: Vec<String>,
}

impl Body {
    /// Reads a request's body.
    ///
    /// # Errors
    /// When it is no JSON object, or has a field that is unknown or refused.
    pub fn parse(bytes: &[u8], table: &'static FieldTable, lenient: bool) -> Result<Body, ApiError> {
        // An empty body is an object without fields: some endpoints need none.
        let bytes = if bytes.trim_ascii().is_empty() { b"{}" } else { bytes };
        Body::new(json_of(bytes, "the body")?, table, "", lenient)
    }

    /// Checks the names of an object at `path`.
    ///
    /// # Errors
    /// As for [`Body::parse`].
    pub fn new(
        value: Value,
        table: &'static FieldTable,
        path: &str,
        lenient: bool,
    ) -> Result<Body, ApiError> {
        let Value::Object(map) = value else {
            let what = if path.is_empty() { "the body" } else { path };
            let error = ApiError::invalid(format!("{what} is {}, but must be an object", kind(&value)));
            return Err(if path.is_empty() { error } else { error.of(path) });
        };
        let path = if path.is_empty() { String::new() } else { format!("{path}.") };
        let mut body = Body { map: Map::new(), table, path, ignored: vec![] };
        for (name, value) in map.into_iter().filter(|(_, v)| !v.is_null()) {
            body.admit(name, value, lenient)?;
        }
        Ok(body)
    }

    fn admit(&mut self, name: String, value: Value, lenient: bool) -> Result<(), ApiError> {
        let path = format!("{}{name}", self.path);
        match self.table.find(&name) {
            Some(FieldSpec { usage: FieldUsage::Taken, .. }) => _ = self.map.insert(name, value),
            Some(FieldSpec { usage: FieldUsage::Refused, doc, .. }) => {
                return Err(ApiError::at(&path, format!("{path} is not supported: {doc}")));
            }
            Some(_) => self.ignored.push(path),
            None if lenient => self.ignored.push(path),
            None => {
                let nearest = self.table.nearest(&name);
                // A name of any length and any characters goes back to the sender only.
                let shown: String = path.chars().filter(|c| !c.is_control()).take(80).collect();
                let text = format!(
                    "`{shown}` is no field of {}; the nearest known one is `{nearest}`",
                    self.table.name
                );
                return Err(ApiError::at(shown, text));
            }
        }
        Ok(())
    }

    /// Bytes that its fields take.
    pub fn memory(&self) -> u64 {
        self.map.values().map(budget::memory).sum()
    }

    /// Path of a field from the body's root.
    pub fn path(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    /// True when the field was given.
    pub fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// Looks at a field.
    pub fn peek(&self, name: &str) -> Option<&Value> {
        self.map.get(name)
    }

    /// Takes a field as it is.
    pub fn value(&mut self, name: &str) -> Option<Value> {
        self.map.shift_remove(name)
    }

    /// Takes a field of type `T`.
    ///
    /// # Errors
    /// When it has another type; the error names the place inside it.
    pub fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, ApiError> {
        let path = self.path(name);
        self.value(name).map(|value| typed(value, &path)).transpose()
    }

    /// Takes a field that has to be there.
    ///
    /// # Errors
    /// When it is missing or has another type.
    pub fn need<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, ApiError> {
        let path = self.path(name);
        self.take(name)?.ok_or_else(|| ApiError::at(&path, format!("{path} is missing")))
    }

    /// Takes an object inside this one, with a table of its own. What it ignores counts as this one's.
    ///
    /// # Errors
    /// As for [`Body::new`].
    pub fn nested(
        &mut self,
        name: &str,
        table: &'static FieldTable,
        lenient: bool,
    ) -> Result<Option<Body>, ApiError> {
        let path = self.path(name);
        let Some(value) = self.value(name) else { return Ok(None) };
        let mut body = Body::new(value, table, &path, lenient)?;
        self.ignored.append(&mut body.ignored);
        Ok(Some(body))
    }

    /// Paths of fields that make no difference.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// Paths of fields that nobody has read.
    pub fn unread(&self) -> impl Iterator<Item = String> {
        self.map.keys().map(|name| self.path(name))
    }

    /// Counts a field that was taken as one that makes no difference.
    pub fn ignore(&mut self, name: &str) {
        let path = self.path(name);
        self.ignored.push(path);
    }
}

/// A value of type `T` at `path`.
///
/// # Errors
/// When it has another type.
pub fn typed<T: DeserializeOwned>(value: Value, path: &str) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(value).map_err(|e| {
        let inside = e.path().to_string();
        let path = match inside.as_str() {
            "." => path.to_owned(),
            i if i.starts_with('[') => format!("{path}{i}"),
            i => format!("{path}.{i}"),
        };
        let path: String = path.chars().filter(|c| !c.is_control()).take(200).collect();
        let message = format!("{path}: {}", discreet(&e.inner().to_string()));
        ApiError::at(path, message)
    })
}

/// A message of serde without the text that it quotes: it may be a prompt.
fn discreet(message: &str) -> String {
    match (message.find(": string \""), message.rfind("\", expected")) {
        (Some(start), Some(end)) if start < end => {
            format!("{}: a string{}", &message[..start], &message[end + 1..])
        }
        _ if message.starts_with("unknown variant") => match message.rfind(", expected") {
            Some(end) => format!("unknown value{}", &message[end..]),
            None => "unknown value".to_owned(),
        },
        _ => message.to_owned(),
    }
}

/// What a value is, for messages.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    static TABLE: FieldTable = FieldTable {
        name: "test",
        sampling: true,
        fields: &[
            taken("messages", "what was said"),
            harmless("user", "nobody asks"),
            refused("audio", "answers are text"),
        ],
        also: &[],
    };

    fn parse(text: &str) -> Result<Body, ApiError> {
        Body::parse(text.as_bytes(), &TABLE, false)
    }

    #[test]
    fn names_are_known_ignored_refused_or_wrong() {
        let mut body = parse(r#"{"messages": [], "temperature": 1, "user": "x", "audio": null}"#).unwrap();
        assert_eq!(body.ignored(), ["user"]);
        assert!(body.has("temperature") && !body.has("audio"));
        assert_eq!(body.take::<Vec<Value>>("messages").unwrap(), Some(vec![]));
        assert_eq!(parse(r#"{"audio": {}}"#).unwrap_err().param.as_deref(), Some("audio"));
        let error = parse(r#"{"temprature": 1}"#).unwrap_err();
        assert!(error.message.ends_with("nearest known one is `temperature`"), "{}", error.message);
        let begun = std::time::Instant::now();
        assert!(parse(&format!("{{\"{}\": 1}}", "x".repeat(60_000))).is_err());
        assert!(begun.elapsed() < std::time::Duration::from_millis(500), "{:?}", begun.elapsed());
        let lenient = Body::parse(br#"{"temprature": 1}"#, &TABLE, true).unwrap();
        assert_eq!(lenient.ignored(), ["temprature"]);
    }

    #[test]
    fn wrong_types_name_their_place_and_no_text() {
        let mut body = parse(r#"{"messages": [1, {"a": "secret"}]}"#).unwrap();
        let error = body.take::<Vec<u32>>("messages").unwrap_err();
        assert_eq!(error.param.as_deref(), Some("messages[1]"));
        let error = typed::<Vec<u32>>(json!(["my \"secret\", expected"]), "x").unwrap_err();
        assert_eq!(error.message, "x[0]: invalid type: a string, expected u32");
        assert!(parse("{\"a\": [").unwrap_err().message.contains("line 1"));
        assert!(parse("[]").unwrap_err().message.contains("a list"));
        assert!(parse(&format!("{{\"messages\": {}", "[".repeat(200))).is_err(), "deep nesting");
    }
}
