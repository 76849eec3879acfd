//! Where Python shows through jinja2: tests that go by Python's types, methods of its strings, how it writes floats.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, ValueKind};
use minijinja::{Environment, Error, State, Value};
use minijinja_contrib::pycompat;

pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(method);
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", is_iterable);
    environment.add_test("number", is_number);
    environment.add_test("float", is_float);
}

/// A JSON value as a template sees it.
pub(super) fn value(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(flag) => Value::from(*flag),
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(items) => list(items),
        serde_json::Value::Object(map) => {
            Value::from_pairs(map.iter().map(|(key, of)| (key.as_str(), value(of))).collect::<Vec<_>>())
        }
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(int), ..) => Value::from(int),
            (_, Some(int), _) => Value::from(int),
            (.., Some(float)) if float_repr(float).contains('e') => Value::from_object(Exponential(float)),
            (.., Some(float)) => Value::from(float),
            _ => Value::from(number.to_string()),
        },
    }
}

/// A list of JSON values.
pub(super) fn list(items: &[serde_json::Value]) -> Value {
    items.iter().map(value).collect()
}

/// A float that Python writes with an exponent and the engine without: in a tool's schema it is only ever written.
#[derive(Debug)]
pub(super) struct Exponential(pub f64);

impl Object for Exponential {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&float_repr(self.0))
    }
}

/// The value as a float, if it is one.
pub(super) fn float(value: &Value) -> Option<f64> {
    match value.downcast_object_ref::<Exponential>() {
        Some(exponential) => Some(exponential.0),
        None if value.kind() == ValueKind::Number && !value.is_integer() => f64::try_from(value.clone()).ok(),
        None => None,
    }
}

fn is_number(value: &Value) -> bool {
    value.kind() == ValueKind::Number || is_float(value)
}

fn is_float(value: &Value) -> bool {
    float(value).is_some()
}

fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    pycompat::unknown_method_callback(state, value, name, args)
}

/// jinja2 asks for a length and items: lists, strings and dicts have both.
fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String)
}

/// All that Python can loop over; an undefined value too, as an empty list.
fn is_iterable(value: &Value) -> bool {
    use ValueKind::{Iterable, Map, Seq, String, Undefined};
    matches!(value.kind(), Seq | Map | String | Iterable | Undefined)
}

/// Python's `repr` of a finite float: the shortest digits, an exponent below 1e-4 and from 1e16.
pub(super) fn float_repr(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') { plain } else { plain + ".0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_look_as_in_python() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (-2.5e300, "-2.5e+300"),
        ];
        for (value, text) in cases {
            assert_eq!(float_repr(value), text);
        }
    }
}
