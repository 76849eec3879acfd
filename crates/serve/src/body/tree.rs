//! JSON as a tree of values, of which there may be so many: a body of a few megabytes can ask for gigabytes.

use crate::error::{ApiError, Cause};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::{cell::Cell, fmt};

/// Values of a text at most, where a field of an object counts as four, and a text as two. More token ids than any context
/// holds, in a few hundred megabytes.
const MOST_VALUES: usize = 4 << 20;

/// Reads JSON; `what` names it in errors.
///
/// # Errors
/// When it is none, or has too many values.
pub fn json_of(bytes: &[u8], what: &str) -> Result<Value, ApiError> {
    let left = Cell::new(MOST_VALUES);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Counted(&left).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    read.map_err(|e| match left.get() {
        0 => {
            let text =
                format!("{what} has more than {MOST_VALUES} values, which is the limit: send fewer at once");
            ApiError::new(Cause::TooLarge, text)
        }
        _ => ApiError::invalid(format!(
            "{what} is no JSON that can be read: {} in line {}, column {}",
            syntax(&e),
            e.line(),
            e.column()
        )),
    })
}

/// What is wrong with the syntax, without its place.
fn syntax(e: &serde_json::Error) -> String {
    let text = e.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// A value, and how many more there may be.
#[derive(Clone, Copy)]
struct Counted<'a>(&'a Cell<usize>);

impl Counted<'_> {
    fn count<E: Error>(self, values: usize) -> Result<(), E> {
        self.0.set(self.0.get().saturating_sub(values));
        match self.0.get() {
            0 => Err(E::custom("too many values")),
            _ => Ok(()),
        }
    }

    fn one<E: Error>(self, value: impl Into<Value>, values: usize) -> Result<Value, E> {
        self.count(values).map(|()| value.into())
    }
}

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.one(Value::Null, 1)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.one(value, 1)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.one(value, 1)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.one(value, 1)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.one(Number::from_f64(value).map_or(Value::Null, Value::Number), 1)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.one(value, 2)
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.one(value, 2)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.count(1)?;
        let mut list = vec![];
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        self.count(1)?;
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            self.count(3)?;
            map.insert(name, fields.next_value_seed(self)?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_the_library_reads() {
        for text in [
            "null",
            " [1, -2, 2.5, 18446744073709551615, 1e300, -0.0, true, \"\\u00e9\\n\"] ",
            "{\"b\": {\"a\": [], \"b\": {}}, \"a\": 1, \"b\": 2}",
            "[1] 2",
            "[1e999]",
            "{\"a\"",
            "\"\\ud800\"",
            "",
        ] {
            let (own, library) = (json_of(text.as_bytes(), "it"), serde_json::from_str::<Value>(text));
            assert_eq!(own.as_ref().ok(), library.as_ref().ok(), "{text}");
            if let (Err(own), Err(library)) = (own, library) {
                assert!(own.message.contains(&syntax(&library)), "{text}: {}", own.message);
            }
        }
        assert!(json_of("[".repeat(200).as_bytes(), "it").is_err(), "deep nesting");
        let order: Vec<String> =
            json_of(b"{\"z\": 1, \"a\": 2}", "it").unwrap().as_object().unwrap().keys().cloned().collect();
        assert_eq!(order, ["z", "a"]);
    }

    #[test]
    fn values_are_counted() {
        let list = |n: usize| format!("[{}1]", "1,".repeat(n - 1));
        assert!(json_of(list(MOST_VALUES - 10).as_bytes(), "it").is_ok());
        assert_eq!(json_of(list(MOST_VALUES).as_bytes(), "it").unwrap_err().cause, Cause::TooLarge);
        let fields = format!("{{{}\"b\": 1}}", "\"a\": 1,".repeat(MOST_VALUES / 4));
        assert_eq!(json_of(fields.as_bytes(), "it").unwrap_err().cause, Cause::TooLarge);
    }
}
