//! Values of fields that several dialects have.

use crate::error::ApiError;
use lamina::sample::{Kind, Param, Value as SampleValue};
use serde_json::Value;
use std::collections::BTreeMap;

/// One text, or a list of texts.
///
/// # Errors
/// When it is something else.
pub fn texts(value: Value, path: &str) -> Result<Vec<String>, ApiError> {
    match value {
        Value::String(text) => Ok(vec![text]),
        Value::Array(list) => list
            .into_iter()
            .enumerate()
            .map(|(i, item)| match item {
                Value::String(text) => Ok(text),
                other => Err(wrong(&format!("{path}[{i}]"), &other, "a text")),
            })
            .collect(),
        other => Err(wrong(path, &other, "a text or a list of texts")),
    }
}

/// The value of a sampling parameter.
///
/// # Errors
/// When it has another type, or is out of range.
pub fn sampling_value(param: &Param, value: &Value, path: &str) -> Result<SampleValue, ApiError> {
    let read = match param.kind {
        Kind::Int if param.is_switch() && value.is_boolean() => {
            value.as_bool().map(|on| SampleValue::Int(on.into()))
        }
        Kind::Float | Kind::Int | Kind::OptionalInt => number(value),
        Kind::Strings => texts(value.clone(), path).ok().map(SampleValue::Strings),
        Kind::Biases => biases(value),
    };
    let read = read.ok_or_else(|| wrong(path, value, &param.kind.to_string()))?;
    param.check(&read).map_err(|e| ApiError::at(path, e.to_string()))?;
    Ok(read)
}

fn number(value: &Value) -> Option<SampleValue> {
    let number = value.as_number()?;
    number.as_i64().map(SampleValue::Int).or_else(|| number.as_f64().map(SampleValue::Float))
}

fn biases(value: &Value) -> Option<SampleValue> {
    let pair = |(id, bias): (&String, &Value)| Some((id.parse().ok()?, bias.as_f64()? as f32));
    let map: Option<BTreeMap<u32, f32>> = value.as_object()?.iter().map(pair).collect();
    map.map(SampleValue::Biases)
}

/// A value of a wrong type.
pub(super) fn wrong(path: &str, value: &Value, want: &str) -> ApiError {
    ApiError::at(path, format!("{path} is {}, but must be {want}", super::kind(value)))
}
