//! JSON as it lies beside models: strict where two readings would differ, lenient where Python wrote what JSON forbids.

use crate::error::{At, FilePart, FormatError, Result, quoted};
use lamina_base::files::read_regular;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::{fmt, io::ErrorKind, path::Path};

/// Key of the object that stands for a number JSON cannot hold, as transformers writes it:
/// `{"__float__": "Infinity"}`.
pub(crate) const FLOAT: &str = "__float__";

/// Largest file of JSON beside a model. Indices of the largest models have ten million bytes.
const MOST_BYTES: u64 = 128 << 20;

/// Reads the file at `path`, which must hold an object.
///
/// # Errors
/// When it is no regular file, larger than any real one, cannot be read, or holds something else.
pub fn read_object(path: &Path) -> Result<Map<String, Value>> {
    let about = std::fs::metadata(path).map_err(|e| FormatError::io("open", path, e))?;
    if !about.is_file() {
        return Err(FormatError::not_a_model(
            path,
            "is no regular file",
            "put the JSON file of the model there",
        ));
    }
    let at = At::new(path, FilePart::Json);
    let bytes = read_regular(path, MOST_BYTES).map_err(|e| match e.kind() {
        ErrorKind::FileTooLarge => at.corrupt("text", e.to_string()),
        _ => FormatError::io("read", path, e),
    })?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|e| at.corrupt("text", format!("is not UTF-8 at byte {}", e.valid_up_to())))?;
    object(path, text)
}

/// The object that `text` is, which came from the file at `path`.
pub(crate) fn object(path: &Path, text: &str) -> Result<Map<String, Value>> {
    let at = At::new(path, FilePart::Json);
    if text.trim().is_empty() {
        return Err(at.corrupt("text", "is empty (the download was cut off?); fetch the file again"));
    }
    match python(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(other) => Err(at.corrupt("text", format!("should be an object, but is {}", describe(&other)))),
        Err(e) => Err(at.corrupt("text", format!("is no valid JSON: {e}"))),
    }
}

/// Parses what Python's `json` writes: JSON, and bare `NaN`, `Infinity` and `-Infinity`, which become [`FLOAT`] objects.
pub(crate) fn python(text: &str) -> serde_json::Result<Value> {
    let text = text.trim_start_matches('\u{feff}');
    serde_json::from_str(text).or_else(|e| match quote_floats(text) {
        Some(quoted) => serde_json::from_str(&quoted),
        None => Err(e),
    })
}

/// `text` with bare non-numbers as objects, or `None` when it has none.
fn quote_floats(text: &str) -> Option<String> {
    const WORDS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    let (mut out, mut rest, mut found) = (String::with_capacity(text.len()), text, false);
    while let Some(c) = rest.chars().next() {
        if let Some(word) = WORDS.iter().find(|w| rest.starts_with(**w)) {
            out.push_str(&format!("{{\"{FLOAT}\":\"{word}\"}}"));
            rest = &rest[word.len()..];
            found = true;
        } else {
            let n = if c == '"' { string_len(rest) } else { c.len_utf8() };
            out.push_str(&rest[..n]);
            rest = &rest[n..];
        }
    }
    found.then_some(out)
}

/// Bytes of the string literal at the start of `text`, both quotes included.
fn string_len(text: &str) -> usize {
    let mut escaped = false;
    for (i, b) in text.bytes().enumerate().skip(1) {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return i + 1,
            _ => {}
        }
    }
    text.len()
}

/// Parses JSON in which no object has a key twice.
pub(crate) fn strict(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str::<Strict>(text).map(|s| s.0)
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(v)) = items.next_element()? {
            list.push(v);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, Strict(v))) = entries.next_entry::<String, Strict>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {} stands twice", quoted(&key))));
            }
            map.insert(key, v);
        }
        Ok(Value::Object(map))
    }
}

/// What a value is, for messages.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => format!("the bool {b}"),
        Value::Number(n) => format!("the number {n}"),
        Value::String(s) => format!("the string {}", quoted(s)),
        Value::Array(a) => format!("a list of {} values", a.len()),
        Value::Object(_) => {
            float(value).map_or_else(|| "an object".to_owned(), |v| format!("the number {v}"))
        }
    }
}

/// The number of a [`FLOAT`] object.
pub(crate) fn float(value: &Value) -> Option<f64> {
    match value.get(FLOAT)?.as_str()? {
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_numbers_are_read_outside_strings_only() {
        let v =
            python(r#"{"a": [0.0, Infinity, -Infinity], "b": "NaN \" Infinity", "c": NaN}"#).expect("read");
        assert_eq!(float(&v["a"][1]), Some(f64::INFINITY));
        assert_eq!(float(&v["a"][2]), Some(f64::NEG_INFINITY));
        assert_eq!(v["b"], "NaN \" Infinity");
        assert!(float(&v["c"]).expect("a number").is_nan());
        assert!(python("{\"a\": }").is_err() && python("{\"a\": Infinit}").is_err());
    }

    #[test]
    fn strict_parsing_refuses_keys_that_stand_twice() {
        assert_eq!(strict(r#"{"a": [1, -2, 0.5, null, true, "x"]}"#).expect("fine")["a"][1], -2);
        let e = strict(r#"{"a": {"b": 1, "b": 2}}"#).expect_err("twice").to_string();
        assert!(e.contains("`b` stands twice"), "{e}");
    }
}
