//! Where Python shows through jinja2: tests that go by Python's types, methods of its strings, how it writes floats.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Tuple, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

use super::guard;

pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(method);
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", is_iterable);
    environment.add_test("number", is_number);
    environment.add_test("float", is_float);
}

/// A JSON value as a template sees it.
pub(crate) fn value(json: &serde_json::Value) -> Value {
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
pub(crate) fn list(items: &[serde_json::Value]) -> Value {
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

/// Booleans are numbers in Python.
fn is_number(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Number | ValueKind::Bool) || is_float(value)
}

fn is_float(value: &Value) -> bool {
    float(value).is_some()
}

fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let mut all = [std::slice::from_ref(value), args].concat();
    // `mark.join(list)` is the filter of the list; to count in a list is to compare with all of it.
    let cost = match (name, value.as_object()) {
        ("join", None) => {
            all.swap(0, 1.min(args.len()));
            "join"
        }
        ("count", Some(_)) => "matches",
        _ => name,
    };
    guard::before(cost, &all)?;
    let result = pycompat::unknown_method_callback(state, value, name, args);
    let made = match (result, value.as_str()) {
        (Err(error), Some(text)) if error.kind() == ErrorKind::UnknownMethod => {
            string_method(text, name, args)
        }
        (result, _) => result,
    };
    guard::after(name, made?)
}

/// Methods of `str` that minijinja-contrib lacks.
fn string_method(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let padded = |left: usize, right: usize, fill: char| {
        let pad = |count: usize| std::iter::repeat_n(fill, count);
        Value::from(pad(left).chain(text.chars()).chain(pad(right)).collect::<String>())
    };
    let missing = |width: usize| width.saturating_sub(text.chars().count());
    Ok(match name {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" | "rpartition" => {
            let (mark,): (&str,) = from_args(args)?;
            let (found, absent) = match name {
                "partition" => (text.split_once(mark), [text, "", ""]),
                _ => (text.rsplit_once(mark), ["", "", text]),
            };
            Value::from(Tuple::from(
                found.map_or(absent, |(before, after)| [before, mark, after]).map(Value::from),
            ))
        }
        "rsplit" => {
            let (mark, most): (&str, Option<usize>) = from_args(args)?;
            let most = most.map_or(usize::MAX, |most| most.saturating_add(1));
            let mut parts: Vec<&str> = text.rsplitn(most, mark).collect();
            parts.reverse();
            parts.into_iter().map(Value::from).collect()
        }
        "index" => {
            let (part,): (&str,) = from_args(args)?;
            let absent = || Error::new(ErrorKind::InvalidOperation, format!("{part:?} is not in the string"));
            let at = text.find(part).ok_or_else(absent)?;
            Value::from(text[..at].chars().count())
        }
        "ljust" | "rjust" => {
            let (width, fill): (usize, Option<char>) = from_args(args)?;
            let (missing, fill) = (missing(width), fill.unwrap_or(' '));
            if name == "ljust" { padded(0, missing, fill) } else { padded(missing, 0, fill) }
        }
        "zfill" => {
            let (width,): (usize,) = from_args(args)?;
            padded(missing(width), 0, '0')
        }
        _ => return Err(Error::from(ErrorKind::UnknownMethod)),
    })
}

/// `int` as jinja2 has it: what is no number becomes the default.
pub(super) fn int(value: &Value, default: Option<Value>) -> Value {
    let text = value.as_str().map(|text| text.trim().replace('_', ""));
    let number = match text {
        Some(text) => text.parse::<i64>().ok().or_else(|| text.parse::<f64>().ok().map(|f| f as i64)),
        None if value.kind() == ValueKind::Bool => Some(i64::from(value.is_true())),
        None => float(value).map(|f| f as i64).or_else(|| i64::try_from(value.clone()).ok()),
    };
    number.map(Value::from).or(default).unwrap_or_else(|| Value::from(0))
}

/// `float` as jinja2 has it.
pub(super) fn to_float(value: &Value, default: Option<Value>) -> Value {
    let number = match value.as_str() {
        Some(text) => text.trim().parse::<f64>().ok(),
        None => float(value).or_else(|| f64::try_from(value.clone()).ok()),
    };
    number.map(Value::from).or(default).unwrap_or_else(|| Value::from(0.0))
}

/// `replace` with its optional limit.
pub(super) fn replace(text: String, old: &str, new: &str, most: Option<usize>) -> String {
    match most {
        Some(most) => text.replacen(old, new, most),
        None => text.replace(old, new),
    }
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
