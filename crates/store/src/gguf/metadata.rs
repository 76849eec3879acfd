//! The metadata of a GGUF file: keys in file order, with reads that say what is wrong.

use super::value::{Array, Strings, Value};
use crate::error::{FormatError, Result, quoted};
use indexmap::IndexMap;
use std::path::{Path, PathBuf};

/// Keys and values of one file, in file order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    file: PathBuf,
    values: IndexMap<String, Value>,
}

impl Metadata {
    /// Metadata without keys; `file` is the name that errors give.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Metadata { file: file.into(), values: IndexMap::new() }
    }

    /// The file that the values came from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Sets `key`, and returns the value that it had.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        self.values.insert(key.into(), value.into())
    }

    /// Takes `key` out, and returns the value that it had.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.values.shift_remove(key)
    }

    /// Keys and values, in file order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True when there is no key.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The value of `key` as a `T`, `None` when the key is not there.
    ///
    /// # Errors
    /// When the value is no `T`; the message names file and key and says what was there.
    pub fn find<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        match T::from_value(value) {
            Some(t) => Ok(Some(t)),
            None => Err(FormatError::WrongType {
                file: self.file.clone(),
                key: quoted(key),
                wanted: T::WANTED.to_owned(),
                found: value.describe(),
            }),
        }
    }

    /// The value of `key` as a `T`.
    ///
    /// # Errors
    /// When the key is missing, or its value is no `T`.
    pub fn need<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T> {
        self.find(key)?.ok_or_else(|| FormatError::Missing {
            file: self.file.clone(),
            what: format!("key {}", quoted(key)),
            hint: String::new(),
        })
    }
}

/// A type that metadata can be read as. Whole numbers convert between all widths that hold them, and to floats; nothing
/// else converts.
pub trait FromValue<'a>: Sized {
    /// What the type is called in messages.
    const WANTED: &'static str;

    /// The value as this type, if it is one.
    fn from_value(value: &'a Value) -> Option<Self>;
}

macro_rules! integers {
    ($($ty:ident $wanted:literal;)*) => {$(
        impl FromValue<'_> for $ty {
            const WANTED: &'static str = $wanted;
            fn from_value(value: &Value) -> Option<Self> {
                value.as_int()?.try_into().ok()
            }
        }
    )*};
}

integers! {
    u32 "a whole number from 0 to 2^32 - 1";
    u64 "a whole number of at least 0";
    usize "a whole number of at least 0";
    i32 "a whole number of 32 bits";
    i64 "a whole number";
}

impl FromValue<'_> for f64 {
    const WANTED: &'static str = "a number";
    fn from_value(value: &Value) -> Option<Self> {
        value.as_float()
    }
}

impl FromValue<'_> for f32 {
    const WANTED: &'static str = "a number";
    fn from_value(value: &Value) -> Option<Self> {
        value.as_float().map(|v| v as f32)
    }
}

impl FromValue<'_> for bool {
    const WANTED: &'static str = "true or false";
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a str {
    const WANTED: &'static str = "a string";
    fn from_value(value: &'a Value) -> Option<Self> {
        match value {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a Array {
    const WANTED: &'static str = "an array";
    fn from_value(value: &'a Value) -> Option<Self> {
        match value {
            Value::Array(a) => Some(a),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a Strings {
    const WANTED: &'static str = "an array of strings";
    fn from_value(value: &'a Value) -> Option<Self> {
        match value {
            Value::Array(Array::Str(s)) => Some(s),
            _ => None,
        }
    }
}

macro_rules! lists {
    ($($ty:ident $wanted:literal;)*) => {$(
        impl FromValue<'_> for Vec<$ty> {
            const WANTED: &'static str = $wanted;
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Array(a) => a.iter().map(|v| $ty::from_value(&v)).collect(),
                    _ => None,
                }
            }
        }
    )*};
}

lists! {
    u32 "an array of whole numbers from 0 to 2^32 - 1";
    i32 "an array of whole numbers of 32 bits";
    usize "an array of whole numbers of at least 0";
    f32 "an array of numbers";
    bool "an array of true and false";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_convert_widths_and_name_what_does_not_fit() {
        let mut m = Metadata::new("m.gguf");
        m.insert("a.count", 7u16);
        m.insert("a.neg", -1i32);
        m.insert("a.list", vec![1i32, 2]);
        m.insert("a.name", "x");
        assert_eq!(m.need::<usize>("a.count").expect("there"), 7);
        assert_eq!(m.find::<f32>("a.count").expect("number"), Some(7.0));
        assert_eq!(m.need::<Vec<u32>>("a.list").expect("list"), [1, 2]);
        assert_eq!(m.find::<u32>("a.none").expect("absent"), None);
        let e = m.need::<usize>("a.neg").expect_err("negative").to_string();
        assert_eq!(e, "m.gguf: key `a.neg` should be a whole number of at least 0, but is the i32 -1");
        let e = m.need::<&str>("a.list").expect_err("list").to_string();
        assert!(e.contains("a string, but is an array of 2 i32 values"), "{e}");
        let e = m.need::<bool>("a.gone").expect_err("absent").to_string();
        assert_eq!(e, "m.gguf: key `a.gone` is missing");
    }
}
