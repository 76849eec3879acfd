//! The list of sampling parameters for Python, and values from Python for them.

use crate::error::{Failure, Result};
use lamina::sample::{Kind, Param, SampleError, Value, params};
use pyo3::{
    prelude::*,
    types::{PyBool, PyDict, PyString},
};
use std::collections::BTreeMap;

/// Name, other names, kind, default, smallest and largest number, meaning.
type Row = (&'static str, Vec<&'static str>, &'static str, Py<PyAny>, (f64, f64), &'static str);

/// Every sampling parameter, in the order of the chain.
#[pyfunction]
pub fn sampling_params(py: Python<'_>) -> PyResult<Vec<Row>> {
    let row = |p: &'static Param| -> PyResult<Row> {
        let range = (*p.range.start(), *p.range.end());
        Ok((p.name, p.aliases.to_vec(), kind(p.kind), object(py, (p.default)())?, range, p.doc))
    };
    params().map(row).collect()
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Float => "float",
        Kind::Int => "int",
        Kind::OptionalInt => "optional int",
        Kind::Strings => "strings",
        Kind::Biases => "biases",
    }
}

fn object(py: Python<'_>, value: Value) -> PyResult<Py<PyAny>> {
    Ok(match value {
        Value::None => py.None(),
        Value::Int(v) => v.into_pyobject(py)?.into_any().unbind(),
        Value::Float(v) => v.into_pyobject(py)?.into_any().unbind(),
        Value::Strings(v) => v.into_pyobject(py)?.into_any().unbind(),
        Value::Biases(v) => v.into_pyobject(py)?.into_any().unbind(),
    })
}

/// A Python value as the parameter takes it. Ranges are checked by whoever sets it.
pub fn value(param: &Param, given: &Bound<'_, PyAny>) -> Result<Value> {
    let read = match param.kind {
        // A truth value is an int in Python, but only a switch means it.
        _ if given.is_instance_of::<PyBool>() && !param.is_switch() => None,
        Kind::OptionalInt if given.is_none() => Some(Value::None),
        Kind::Float | Kind::Int | Kind::OptionalInt => number(given),
        Kind::Strings => given.extract().ok().map(Value::Strings),
        Kind::Biases => biases(given).map(Value::Biases),
    };
    read.ok_or_else(|| Failure::from(wrong_kind(param, given)))
}

fn number(given: &Bound<'_, PyAny>) -> Option<Value> {
    given.extract().map(Value::Int).or_else(|_| given.extract().map(Value::Float)).ok()
}

/// Ids may be written as text, as JSON has to.
fn biases(given: &Bound<'_, PyAny>) -> Option<BTreeMap<u32, f32>> {
    let pair = |(key, bias): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let id = match key.cast::<PyString>() {
            Ok(text) => text.to_cow().ok()?.parse().ok()?,
            // True is an int in Python, but no token.
            Err(_) if key.is_instance_of::<PyBool>() => return None,
            Err(_) => key.extract().ok()?,
        };
        Some((id, bias.extract().ok()?))
    };
    given.cast::<PyDict>().ok()?.iter().map(pair).collect()
}

fn wrong_kind(param: &Param, given: &Bound<'_, PyAny>) -> SampleError {
    let given = given.repr().map_or_else(|_| "something else".to_owned(), |r| r.to_string());
    SampleError::WrongKind { name: param.name.into(), expected: param.kind.to_string(), given }
}
