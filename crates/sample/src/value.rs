//! Values of sampling parameters as they come from outside (Python, command line, JSON), before they have a type.

use std::collections::BTreeMap;
use std::fmt;

/// What a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Float,
    /// A whole number.
    Int,
    /// A whole number or nothing.
    OptionalInt,
    /// A list of strings.
    Strings,
    /// Numbers by token id.
    Biases,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Float => "a number",
            Kind::Int => "a whole number",
            Kind::OptionalInt => "a whole number or nothing",
            Kind::Strings => "a list of strings",
            Kind::Biases => "numbers by token id",
        })
    }
}

/// A value whose parameter is known by name only.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing (Python's `None`).
    None,
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A list of strings.
    Strings(Vec<String>),
    /// Numbers by token id.
    Biases(BTreeMap<u32, f32>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::None => f.write_str("nothing"),
            Value::Int(v) => write!(f, "{v}"),
            Value::Float(v) => write!(f, "{v}"),
            Value::Strings(v) => write!(f, "{v:?}"),
            Value::Biases(v) => write!(f, "{v:?}"),
        }
    }
}

impl Value {
    /// The number, where this is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Int(v) => Some(*v as f64),
            Value::Float(v) => Some(*v),
            _ => None,
        }
    }

    /// The whole number, where this is one; `40.0` counts, because JSON and Lua write integers so.
    pub fn whole(&self) -> Option<i64> {
        match self {
            Value::Int(v) => Some(*v),
            // 2^53: beyond it a float no longer names one integer.
            Value::Float(v) if v.fract() == 0.0 && v.abs() <= 9_007_199_254_740_992.0 => Some(*v as i64),
            _ => None,
        }
    }
}

/// A Rust type that a parameter's field may have.
pub(super) trait Field: Sized {
    const KIND: Kind;
    fn from_value(value: &Value) -> Option<Self>;
    fn to_value(&self) -> Value;
}

impl Field for f32 {
    const KIND: Kind = Kind::Float;

    fn from_value(value: &Value) -> Option<Self> {
        value.number().map(|v| v as f32)
    }

    /// Through decimal digits, so that 0.95 reads 0.95 and not 0.949999988079071.
    fn to_value(&self) -> Value {
        Value::Float(self.to_string().parse().unwrap_or(f64::from(*self)))
    }
}

macro_rules! whole_fields {
    ($($ty:ty),*) => {$(
        impl Field for $ty {
            const KIND: Kind = Kind::Int;

            fn from_value(value: &Value) -> Option<Self> {
                value.whole()?.try_into().ok()
            }

            fn to_value(&self) -> Value {
                Value::Int(i64::from(*self))
            }
        }

        impl Field for Option<$ty> {
            const KIND: Kind = Kind::OptionalInt;

            /// -1 means nothing: llama.cpp's way to ask for a random seed.
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::None | Value::Int(-1) => Some(None),
                    _ => <$ty>::from_value(value).map(Some),
                }
            }

            fn to_value(&self) -> Value {
                self.as_ref().map_or(Value::None, <$ty>::to_value)
            }
        }
    )*};
}
whole_fields!(i32, u32, i64);

impl Field for Vec<String> {
    const KIND: Kind = Kind::Strings;

    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Strings(v) = value { Some(v.clone()) } else { None }
    }

    fn to_value(&self) -> Value {
        Value::Strings(self.clone())
    }
}

impl Field for BTreeMap<u32, f32> {
    const KIND: Kind = Kind::Biases;

    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Biases(v) = value { Some(v.clone()) } else { None }
    }

    fn to_value(&self) -> Value {
        Value::Biases(self.clone())
    }
}

macro_rules! value_from {
    ($($ty:ty => |$v:ident| $body:expr;)*) => {$(
        impl From<$ty> for Value {
            fn from($v: $ty) -> Self {
                $body
            }
        }
    )*};
}
value_from! {
    f64 => |v| Value::Float(v);
    f32 => |v| v.to_value();
    i64 => |v| Value::Int(v);
    i32 => |v| Value::Int(v.into());
    u32 => |v| Value::Int(v.into());
    Vec<String> => |v| Value::Strings(v);
    BTreeMap<u32, f32> => |v| Value::Biases(v);
}
