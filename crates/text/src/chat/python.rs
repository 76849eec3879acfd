//! Where Python shows through jinja2: tests that go by Python's types, methods of its strings, how it writes floats.

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, State, Value};
use minijinja_contrib::pycompat;

pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(method);
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", is_iterable);
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
