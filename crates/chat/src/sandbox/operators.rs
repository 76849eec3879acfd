//! The operators of the language, with their cost taken from the meter first. The engine computes them inside its
//! loop, where nothing can ask; [`super::program`] puts calls of these functions in their place.

use std::sync::Arc;

use minijinja::value::{Rest, Tuple, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};

use super::meter::{self, ITEM};
use super::{namespace, size};

// Names that no template can write.
pub(super) const ADD: &str = "\0+";
pub(super) const MUL: &str = "\0*";
pub(super) const CONCAT: &str = "\0~";
pub(super) const EQ: &str = "\0==";
pub(super) const NE: &str = "\0!=";
pub(super) const LT: &str = "\0<";
pub(super) const LE: &str = "\0<=";
pub(super) const GT: &str = "\0>";
pub(super) const GE: &str = "\0>=";
pub(super) const IN: &str = "\0in";
pub(super) const ITEM_OF: &str = "\0[]=";
pub(super) const SLICE: &str = "\0[:]";
pub(super) const LIST: &str = "\0[]";
pub(super) const TUPLE: &str = "\0()";
pub(super) const MAP: &str = "\0{}";
pub(super) const KEPT: &str = "\0kept";
pub(super) const WALKED: &str = "\0walked";
pub(super) const ASSIGN: &str = "\0.=";
pub(super) const TICK: &str = "\0tick";
pub(super) const NO_TEMPLATE: &str = "\0include";

pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.add_function(ADD, add);
    environment.add_function(MUL, multiply);
    environment.add_function(CONCAT, concat);
    environment.add_function(EQ, |a: &Value, b: &Value| comparable(a, b).map(|()| a == b));
    environment.add_function(NE, |a: &Value, b: &Value| comparable(a, b).map(|()| a != b));
    environment.add_function(LT, |a: &Value, b: &Value| comparable(a, b).map(|()| a < b));
    environment.add_function(LE, |a: &Value, b: &Value| comparable(a, b).map(|()| a <= b));
    environment.add_function(GT, |a: &Value, b: &Value| comparable(a, b).map(|()| a > b));
    environment.add_function(GE, |a: &Value, b: &Value| comparable(a, b).map(|()| a >= b));
    environment.add_function(IN, |item: &Value, container: &Value| contains(container, item));
    environment.add_function(ITEM_OF, item);
    environment.add_function(SLICE, slice);
    environment.add_function(LIST, |items: Rest<Value>| size::list(items.0));
    environment.add_function(TUPLE, |items: Rest<Value>| tuple(items.0));
    environment.add_function(MAP, |items: Rest<Value>| map(&items));
    environment.add_function(KEPT, kept);
    environment.add_function(WALKED, |value: Value| size::walkable(&value).map(|()| value));
    environment.add_function(ASSIGN, |value: &Value, of: &Value, name: &str| {
        namespace::assign(value, of, name).map(|()| Value::from(()))
    });
    environment.add_function(TICK, || meter::work(50).map(|()| Value::from(())));
    environment.add_function(NO_TEMPLATE, no_template);
    // Tests that compare have the names of operators too.
    for name in ["eq", "equalto", "=="] {
        environment.add_test(name, |a: &Value, b: &Value| comparable(a, b).map(|()| a == b));
    }
    for name in ["ne", "!="] {
        environment.add_test(name, |a: &Value, b: &Value| comparable(a, b).map(|()| a != b));
    }
    for name in ["lt", "lessthan", "<"] {
        environment.add_test(name, |a: &Value, b: &Value| comparable(a, b).map(|()| a < b));
    }
    for name in ["le", "<="] {
        environment.add_test(name, |a: &Value, b: &Value| comparable(a, b).map(|()| a <= b));
    }
    for name in ["gt", "greaterthan", ">"] {
        environment.add_test(name, |a: &Value, b: &Value| comparable(a, b).map(|()| a > b));
    }
    for name in ["ge", ">="] {
        environment.add_test(name, |a: &Value, b: &Value| comparable(a, b).map(|()| a >= b));
    }
    environment.add_test("in", |item: &Value, container: &Value| contains(container, item));
    environment.add_test("sameas", |a: &Value, b: &Value| {
        comparable(a, b).map(|()| minijinja::tests::is_sameas(a, b))
    });
}

fn impossible(operator: &str, a: &Value, b: &Value) -> Error {
    let problem =
        format!("tried to use {operator} operator on unsupported types {} and {}", a.kind(), b.kind());
    Error::new(ErrorKind::InvalidOperation, problem)
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

fn comparable(a: &Value, b: &Value) -> Result<(), Error> {
    size::walkable(a)?;
    size::walkable(b)
}

/// Two numbers, as integers if both are.
enum NumberPair {
    Integers(i128, i128),
    Floats(f64, f64),
}

fn numbers(a: &Value, b: &Value) -> Option<NumberPair> {
    let is_float = |value: &Value| value.kind() == ValueKind::Number && !value.is_integer();
    if is_float(a) || is_float(b) {
        return Some(NumberPair::Floats(f64::try_from(a.clone()).ok()?, f64::try_from(b.clone()).ok()?));
    }
    Some(NumberPair::Integers(i128::try_from(a.clone()).ok()?, i128::try_from(b.clone()).ok()?))
}

/// Integers that fit have 64 bits, as the engine's own have.
fn integer(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| Value::from(value), Value::from)
}

fn too_large(operator: &str, a: &Value, b: &Value) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("unable to calculate {a} {operator} {b}"))
}

/// The items of a list that is about to be copied.
pub(super) fn items(value: &Value) -> Result<Vec<Value>, Error> {
    let mut items = Vec::new();
    for item in value.try_iter()?.checked() {
        meter::work(10)?;
        meter::affordable((items.len() + 1) * ITEM * 2)?;
        items.push(item?);
    }
    Ok(items)
}

/// Joins two texts. Of `a ~ b ~ c` the engine frees `a ~ b` when this call ends: nobody holds it but the engine's
/// stack and this function.
fn joined(a: &Value, text_a: &str, text_b: &str) -> Result<Value, Error> {
    meter::memory(text_a.len() + text_b.len())?;
    let both = Value::from([text_a, text_b].concat());
    if let (Some(_), Ok(text)) = (a.as_str(), Arc::<str>::try_from(a.clone()))
        && Arc::strong_count(&text) == 2
    {
        meter::returned(text.len());
    }
    Ok(both)
}

fn add(a: &Value, b: &Value) -> Result<Value, Error> {
    if let (Some(text_a), Some(text_b)) = (a.as_str(), b.as_str()) {
        return joined(a, text_a, text_b);
    }
    if a.is_tuple() != b.is_tuple() {
        return Err(impossible("+", a, b));
    }
    if is_list(a) && is_list(b) {
        let mut all = items(a)?;
        all.extend(items(b)?);
        return if a.is_tuple() { tuple(all) } else { size::list(all) };
    }
    match numbers(a, b) {
        Some(NumberPair::Integers(x, y)) => x.checked_add(y).map(integer).ok_or_else(|| too_large("+", a, b)),
        Some(NumberPair::Floats(x, y)) => Ok(Value::from(x + y)),
        None => Err(impossible("+", a, b)),
    }
}

fn multiply(a: &Value, b: &Value) -> Result<Value, Error> {
    let repeats = |value: &Value| value.as_str().is_some() || is_list(value);
    match (repeats(a), repeats(b)) {
        (true, false) => return repeat(a, b),
        (false, true) => return repeat(b, a),
        _ => {}
    }
    match numbers(a, b) {
        Some(NumberPair::Integers(x, y)) => x.checked_mul(y).map(integer).ok_or_else(|| too_large("*", a, b)),
        Some(NumberPair::Floats(x, y)) => Ok(Value::from(x * y)),
        None => Err(impossible("*", a, b)),
    }
}

fn repeat(value: &Value, times: &Value) -> Result<Value, Error> {
    let times = i64::try_from(times.clone()).map_err(|_| impossible("*", value, times))?;
    let times = usize::try_from(times).unwrap_or(0);
    if let Some(text) = value.as_str() {
        meter::memory(text.len().saturating_mul(times))?;
        return Ok(Value::from(text.repeat(times)));
    }
    let once = items(value)?;
    meter::affordable(once.len().saturating_mul(times).saturating_mul(ITEM))?;
    let all = once.iter().cycle().take(once.len() * times).cloned().collect();
    if value.is_tuple() { tuple(all) } else { size::list(all) }
}

fn concat(a: &Value, b: &Value) -> Result<Value, Error> {
    joined(a, &size::text(a)?, &size::text(b)?)
}

fn contains(container: &Value, item: &Value) -> Result<bool, Error> {
    if container.is_undefined() {
        return Ok(false);
    }
    if let Some(text) = container.as_str() {
        meter::work(text.len())?;
        return Ok(text.contains(&*size::text(item)?));
    }
    size::walkable(item)?;
    match container.kind() {
        ValueKind::Map => Ok(container.as_object().is_some_and(|map| map.get_value(item).is_some())),
        ValueKind::Seq | ValueKind::Iterable => {
            size::walkable(container)?;
            for other in container.try_iter()?.checked() {
                if other? == *item {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ if container.as_object().is_some() => Ok(false),
        _ => {
            let problem = "cannot perform a containment check on this value";
            Err(Error::new(ErrorKind::InvalidOperation, problem))
        }
    }
}

/// `of[key]`. A character of a string is found by counting.
fn item(of: &Value, key: &Value) -> Result<Value, Error> {
    size::walkable(key)?;
    meter::work(1 + of.as_str().map_or(0, str::len))?;
    of.get_item(key)
}

fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let bound = |value: &Value| match value.is_none() {
        true => Ok(None),
        false => i64::try_from(value.clone()).map(Some),
    };
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    if step == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "cannot slice by step size of 0"));
    }
    if let Some(text) = value.as_str() {
        meter::affordable(text.len().saturating_mul(4))?;
        meter::memory(text.len())?;
        let characters: Vec<char> = text.chars().collect();
        let picked = picks(characters.len(), start, stop, step).map(|index| characters[index]);
        return Ok(Value::from(picked.collect::<String>()));
    }
    if value.is_undefined() || value.is_none() {
        return Ok(Value::from(Vec::<Value>::new()));
    }
    if !is_list(value) {
        let problem = format!("value of type {} cannot be sliced", value.kind());
        return Err(Error::new(ErrorKind::InvalidOperation, problem));
    }
    let all = items(value)?;
    let picked = picks(all.len(), start, stop, step).map(|index| all[index].clone()).collect();
    if value.is_tuple() { tuple(picked) } else { size::list(picked) }
}

/// The places that Python's `[start:stop:step]` picks of `len`.
fn picks(len: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let len = len as i64;
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let place = |bound: i64| {
        let from_start = if bound < 0 { bound.saturating_add(len) } else { bound };
        from_start.clamp(low, high)
    };
    let (first, last) = if step > 0 { (low, high) } else { (high, low) };
    let (start, stop) = (start.map_or(first, place), stop.map_or(last, place));
    std::iter::successors(Some(start), move |at| at.checked_add(step))
        .take_while(move |&at| if step > 0 { at < stop } else { at > stop })
        .map(|at| at as usize)
}

fn tuple(items: Vec<Value>) -> Result<Value, Error> {
    meter::memory(items.len() * ITEM)?;
    size::nested(&items)?;
    Ok(Value::from(Tuple::from(items)))
}

fn map(pairs: &[Value]) -> Result<Value, Error> {
    meter::memory(pairs.len() * 2 * ITEM)?;
    size::nested(pairs)?;
    pairs.iter().step_by(2).try_for_each(size::walkable)?;
    Ok(Value::from_pairs(pairs.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()))))
}

/// A list that the engine built.
fn kept(value: Value) -> Result<Value, Error> {
    let held = items(&value)?;
    meter::memory(held.len() * ITEM)?;
    size::nested(&held)?;
    Ok(value)
}

fn no_template(_name: &Value) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::TemplateNotFound, "a chat template cannot include or extend another"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_pick_as_python_does() {
        let pick = |start, stop, step| picks(5, start, stop, step).collect::<Vec<_>>();
        assert_eq!(pick(None, None, 1), [0, 1, 2, 3, 4]);
        assert_eq!(pick(None, None, -1), [4, 3, 2, 1, 0]);
        assert_eq!(pick(Some(-2), None, 1), [3, 4]);
        assert_eq!(pick(Some(1), Some(-1), 2), [1, 3]);
        assert_eq!(pick(Some(-1), Some(0), -2), [4, 2]);
        assert_eq!(pick(Some(9), Some(i64::MIN), -4), [4, 0]);
        assert_eq!(pick(Some(3), Some(1), 1), [0; 0]);
        assert_eq!(picks(0, None, None, -1).count(), 0);
    }
}
