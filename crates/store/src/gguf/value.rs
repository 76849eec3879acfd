//! Metadata values: one enum for every kind the format has, arrays stored compactly by element type.

use crate::error::quoted;
use lamina_base::Bytes;
use std::fmt;

macro_rules! numbers {
    ($($variant:ident $ty:ident $id:literal;)*) => {
        /// One metadata value.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Value {
            $(#[doc = concat!("`", stringify!($ty), "`, type id ", $id, ".")] $variant($ty),)*
            /// One byte, 0 or 1, type id 7.
            Bool(bool),
            /// UTF-8 text, type id 8.
            Str(String),
            /// Many values of one type, type id 9.
            Array(Array),
        }

        /// Many values of one type.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Array {
            $(#[doc = concat!("Elements of type `", stringify!($ty), "`.")] $variant(Vec<$ty>),)*
            /// Truth values.
            Bool(Vec<bool>),
            /// Texts, such as a vocabulary.
            Str(Strings),
            /// Arrays of arrays.
            Nested(Vec<Array>),
        }

        impl Value {
            /// Type id inside a file.
            pub(super) fn type_id(&self) -> u32 {
                match self {
                    $(Value::$variant(_) => $id,)*
                    Value::Bool(_) => type_id::BOOL,
                    Value::Str(_) => type_id::STRING,
                    Value::Array(_) => type_id::ARRAY,
                }
            }

            /// What kind of value this is, for messages.
            pub fn describe(&self) -> String {
                match self {
                    $(Value::$variant(v) => format!(concat!("the ", stringify!($ty), " {}"), v),)*
                    Value::Bool(v) => format!("the bool {v}"),
                    Value::Str(v) => format!("the string {}", quoted(v)),
                    Value::Array(a) => format!("an array of {} {}", a.len(), a.kind()),
                }
            }

            pub(super) fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $(Value::$variant(v) => out.extend_from_slice(&v.to_le_bytes()),)*
                    Value::Bool(v) => out.push(u8::from(*v)),
                    Value::Str(v) => write_str(v.as_bytes(), out),
                    Value::Array(a) => a.write(out),
                }
            }
        }

        impl Array {
            /// Type id of the elements inside a file.
            pub(super) fn type_id(&self) -> u32 {
                match self {
                    $(Array::$variant(_) => $id,)*
                    Array::Bool(_) => type_id::BOOL,
                    Array::Str(_) => type_id::STRING,
                    Array::Nested(_) => type_id::ARRAY,
                }
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                match self {
                    $(Array::$variant(v) => v.len(),)*
                    Array::Bool(v) => v.len(),
                    Array::Str(v) => v.len(),
                    Array::Nested(v) => v.len(),
                }
            }

            /// What the elements are, for messages: `strings`, `u32 values`...
            fn kind(&self) -> &'static str {
                match self {
                    $(Array::$variant(_) => concat!(stringify!($ty), " values"),)*
                    Array::Bool(_) => "bool values",
                    Array::Str(_) => "strings",
                    Array::Nested(_) => "arrays",
                }
            }

            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.type_id().to_le_bytes());
                out.extend_from_slice(&(self.len() as u64).to_le_bytes());
                match self {
                    $(Array::$variant(v) => v.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),)*
                    Array::Bool(v) => out.extend(v.iter().map(|&b| u8::from(b))),
                    Array::Str(v) => out.extend_from_slice(&v.data),
                    Array::Nested(v) => v.iter().for_each(|a| a.write(out)),
                }
            }

            /// Element `i` as a value of its own.
            pub fn get(&self, i: usize) -> Option<Value> {
                Some(match self {
                    $(Array::$variant(v) => Value::$variant(*v.get(i)?),)*
                    Array::Bool(v) => Value::Bool(*v.get(i)?),
                    Array::Str(v) => Value::Str(String::from_utf8_lossy(v.get(i)?).into_owned()),
                    Array::Nested(v) => Value::Array(v.get(i)?.clone()),
                })
            }
        }

        $(impl From<$ty> for Value {
            fn from(v: $ty) -> Value { Value::$variant(v) }
        }
        impl From<Vec<$ty>> for Value {
            fn from(v: Vec<$ty>) -> Value { Value::Array(Array::$variant(v)) }
        })*
    };
}

numbers! {
    U8 u8 0;
    I8 i8 1;
    U16 u16 2;
    I16 i16 3;
    U32 u32 4;
    I32 i32 5;
    F32 f32 6;
    U64 u64 10;
    I64 i64 11;
    F64 f64 12;
}

/// Type ids of the kinds that are no numbers.
pub(super) mod type_id {
    pub const BOOL: u32 = 7;
    pub const STRING: u32 = 8;
    pub const ARRAY: u32 = 9;
}

impl Value {
    /// The value if it is a whole number of any width.
    pub fn as_int(&self) -> Option<i128> {
        Some(match *self {
            Value::U8(v) => v.into(),
            Value::I8(v) => v.into(),
            Value::U16(v) => v.into(),
            Value::I16(v) => v.into(),
            Value::U32(v) => v.into(),
            Value::I32(v) => v.into(),
            Value::U64(v) => v.into(),
            Value::I64(v) => v.into(),
            _ => return None,
        })
    }

    /// The value if it is a number of any kind.
    pub fn as_float(&self) -> Option<f64> {
        match *self {
            Value::F32(v) => Some(v.into()),
            Value::F64(v) => Some(v),
            _ => self.as_int().map(|v| v as f64),
        }
    }
}

impl Array {
    /// True when the array has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All elements as values of their own.
    pub fn iter(&self) -> impl Iterator<Item = Value> + '_ {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}

impl From<bool> for Value {
    fn from(v: bool) -> Value {
        Value::Bool(v)
    }
}

impl From<Vec<bool>> for Value {
    fn from(v: Vec<bool>) -> Value {
        Value::Array(Array::Bool(v))
    }
}

impl From<&str> for Value {
    fn from(v: &str) -> Value {
        Value::Str(v.to_owned())
    }
}

impl From<String> for Value {
    fn from(v: String) -> Value {
        Value::Str(v)
    }
}

impl From<Strings> for Value {
    fn from(v: Strings) -> Value {
        Value::Array(Array::Str(v))
    }
}

impl From<Array> for Value {
    fn from(v: Array) -> Value {
        Value::Array(v)
    }
}

/// An array of strings in the form of the file: one stretch of bytes, each string behind its 64-bit length, and where
/// each starts. A vocabulary of 150 000 tokens is one range of the header and one list of offsets.
#[derive(Clone, Default)]
pub struct Strings {
    data: Data,
    starts: Vec<u64>,
}

#[derive(Clone)]
struct Data(Bytes);

impl Default for Data {
    fn default() -> Self {
        Data(Bytes::from(Vec::new()))
    }
}

impl std::ops::Deref for Data {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Strings {
    /// `starts` holds the offset of each string's first byte in `data`, right behind its length.
    pub(super) fn from_file(data: Bytes, starts: Vec<u64>) -> Self {
        Strings { data: Data(data), starts }
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// True when there is no string.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The bytes of string `i`. They should be UTF-8, but that is not checked: byte-level vocabularies have been
    /// written with raw bytes in them.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let start = usize::try_from(*self.starts.get(i)?).ok()?;
        let len = self.data.get(start.checked_sub(8)?..start)?.try_into().map(u64::from_le_bytes).ok()?;
        self.data.get(start..start.checked_add(usize::try_from(len).ok()?)?)
    }

    /// All strings, as bytes.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// All strings as text, or the index of the first that is not UTF-8.
    ///
    /// # Errors
    /// The index of a string that is not UTF-8.
    pub fn texts(&self) -> Result<Vec<&str>, usize> {
        self.iter().enumerate().map(|(i, s)| std::str::from_utf8(s).map_err(|_| i)).collect()
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(items: I) -> Self {
        let (mut data, mut starts) = (Vec::new(), Vec::new());
        for s in items {
            starts.push(data.len() as u64 + 8);
            write_str(s.as_ref(), &mut data);
        }
        Strings { data: Data(Bytes::from(data)), starts }
    }
}

impl PartialEq for Strings {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Strings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Strings({})", self.len())
    }
}

/// A string as files hold it: its length in 64 bits, then its bytes.
pub(super) fn write_str(s: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(s.len() as u64).to_le_bytes());
    out.extend_from_slice(s);
}
