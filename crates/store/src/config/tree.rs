//! Reads and writes in a tree of JSON objects by dotted path, and the conversions of single values.

use crate::json;
use serde_json::{Map, Value};

/// The value at `path`, if every part before the last is an object that has the next.
pub(super) fn get<'a>(tree: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    match path.split_once('.') {
        None => tree.get(path),
        Some((first, rest)) => get(tree.get(first)?.as_object()?, rest),
    }
}

/// Puts `value` at `path`; what stands in the way and is no object is replaced.
pub(super) fn set(tree: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            tree.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            let child = tree.entry(first).or_insert_with(|| Value::Object(Map::new()));
            if !child.is_object() {
                *child = Value::Object(Map::new());
            }
            if let Value::Object(map) = child {
                set(map, rest, value);
            }
        }
    }
}

/// Puts in what the tree lacks, objects key by key.
pub(super) fn fill(tree: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (tree.get_mut(&key), value) {
            (None | Some(Value::Null), value) => {
                tree.insert(key, value);
            }
            (Some(Value::Object(inner)), Value::Object(value)) => fill(inner, value),
            _ => {}
        }
    }
}

/// Takes the value at `path` out of the tree.
pub(super) fn take(tree: &mut Map<String, Value>, path: &str) -> Option<Value> {
    match path.split_once('.') {
        None => tree.shift_remove(path),
        Some((first, rest)) => take(tree.get_mut(first)?.as_object_mut()?, rest),
    }
}

/// The value as a whole number of at least 0. `16.0` counts: some writers have only floats.
pub(super) fn usize(value: &Value) -> Option<usize> {
    let exact = |f: f64| (f.fract() == 0.0 && (0.0..=9e15).contains(&f)).then_some(f as u64);
    let n = value.as_u64().or_else(|| exact(value.as_f64()?))?;
    n.try_into().ok()
}

/// The value as a number; [`json::FLOAT`] objects count.
pub(super) fn f64(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| json::float(value))
}

/// The value as a number that fits single precision; infinities stay, finite numbers must not become them.
pub(super) fn f32(value: &Value) -> Option<f32> {
    let wide = f64(value)?;
    let narrow = wide as f32;
    (narrow.is_finite() || !wide.is_finite()).then_some(narrow)
}
