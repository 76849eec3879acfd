//! `oneOf`: exact where no two branches share a value, or where branches can be made so.

use serde_json::{Map, Value, json};

use super::negate::{negated, types_of};
use super::values::{finite, same, type_of};

/// Branches that are made disjoint by forbidding the others: their number squared is compiled.
const MOST_MADE_DISJOINT: usize = 8;
/// References and combinations that a proof looks through.
const DEPTH: usize = 6;

type Resolve<'a> = &'a dyn Fn(&str) -> Option<Value>;

/// `branches` as an exact `anyOf`; None where neither way works.
pub(super) fn as_any_of(branches: &[Value], resolve: Resolve) -> Option<Vec<Value>> {
    let rest = |i: usize| &branches[i + 1..];
    let apart = |(i, a): (usize, &Value)| rest(i).iter().all(|b| disjoint(a, b, resolve, DEPTH));
    if branches.iter().enumerate().all(apart) {
        return Some(branches.to_vec());
    }
    if branches.len() > MOST_MADE_DISJOINT {
        return None;
    }
    let alone = |i: usize| {
        let within = branches[i].as_object().and_then(types_of);
        let others = branches.iter().enumerate().filter(|(j, _)| *j != i);
        let forbidden = others.map(|(_, other)| negated(other, within.as_deref(), resolve, DEPTH));
        let all = std::iter::once(Some(branches[i].clone())).chain(forbidden).collect::<Option<Vec<_>>>()?;
        Some(json!({ "allOf": all }))
    };
    (0..branches.len()).map(alone).collect()
}

/// Whether provably no value satisfies both.
fn disjoint(a: &Value, b: &Value, resolve: Resolve, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    let (Some(a), Some(b)) = (parts(a, resolve, depth), parts(b, resolve, depth)) else { return true };
    let pairs = || a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
    let by_branches = |x: &Map<String, Value>, others: &[Map<String, Value>]| {
        let whole = json!({ "allOf": others });
        let branches = ["anyOf", "oneOf"].into_iter().filter_map(|k| x.get(k)?.as_array());
        branches.into_iter().any(|list| list.iter().all(|branch| disjoint(branch, &whole, resolve, depth)))
    };
    pairs().any(|(x, y)| by_type(x, y) || by_value(x, y) || by_range(x, y))
        || by_member(&a, &b, resolve, depth)
        || a.iter().any(|x| by_branches(x, &b))
        || b.iter().any(|y| by_branches(y, &a))
}

/// The schemas that `schema` is the conjunction of; None for `false`.
fn parts(schema: &Value, resolve: Resolve, depth: usize) -> Option<Vec<Map<String, Value>>> {
    let map = match schema {
        Value::Bool(false) => return None,
        Value::Object(map) => map,
        _ => return Some(Vec::new()),
    };
    let mut all = vec![map.clone()];
    let Some(depth) = depth.checked_sub(1) else { return Some(all) };
    if let Some(target) = map.get("$ref").and_then(Value::as_str).and_then(resolve) {
        all.extend(parts(&target, resolve, depth)?);
    }
    for part in map.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        all.extend(parts(part, resolve, depth)?);
    }
    Some(all)
}

/// The types that a schema allows, whole numbers as numbers; None when it names none.
fn types(map: &Map<String, Value>) -> Option<Vec<&str>> {
    let number = |name| if name == "integer" { "number" } else { name };
    match map.get("type") {
        Some(Value::String(name)) => Some(vec![number(name)]),
        Some(Value::Array(names)) => Some(names.iter().filter_map(Value::as_str).map(number).collect()),
        _ => finite(map).map(|values| values.iter().map(type_of).collect()),
    }
}

fn by_type(x: &Map<String, Value>, y: &Map<String, Value>) -> bool {
    match (types(x), types(y)) {
        (Some(x), Some(y)) => !x.iter().any(|name| y.contains(name)),
        _ => false,
    }
}

fn by_value(x: &Map<String, Value>, y: &Map<String, Value>) -> bool {
    match (finite(x), finite(y)) {
        (Some(x), Some(y)) => !x.iter().any(|a| y.iter().any(|b| same(a, b))),
        _ => false,
    }
}

/// Numbers, strings or lists whose limits exclude one another.
fn by_range(x: &Map<String, Value>, y: &Map<String, Value>) -> bool {
    let only = |map, name| types(map).is_some_and(|types| types == [name]);
    let value = |map: &Map<String, Value>, key: &str| map.get(key).and_then(Value::as_f64);
    let below = |a, b, kind, most: &str, least: &str| {
        (only(a, kind) || only(b, kind))
            && matches!((value(a, most), value(b, least)), (Some(m), Some(l)) if m < l)
    };
    let touching = |a, b, most: &str, least: &str| {
        (only(a, "number") || only(b, "number"))
            && matches!((value(a, most), value(b, least)), (Some(m), Some(l)) if m <= l)
    };
    let apart = |a, b| {
        below(a, b, "number", "maximum", "minimum")
            || below(a, b, "string", "maxLength", "minLength")
            || below(a, b, "array", "maxItems", "minItems")
            || touching(a, b, "exclusiveMaximum", "minimum")
            || touching(a, b, "maximum", "exclusiveMinimum")
            || touching(a, b, "exclusiveMaximum", "exclusiveMinimum")
    };
    apart(x, y) || apart(y, x)
}

/// Objects of which one requires a member that cannot be what both ask of it.
fn by_member(a: &[Map<String, Value>], b: &[Map<String, Value>], resolve: Resolve, depth: usize) -> bool {
    let objects = |parts: &[Map<String, Value>]| {
        parts.iter().any(|map| types(map).is_some_and(|types| types == ["object"]))
    };
    if !objects(a) && !objects(b) {
        return false;
    }
    let required = a.iter().chain(b).filter_map(|map| map.get("required")?.as_array()).flatten();
    required.filter_map(Value::as_str).any(|name| {
        let asked = |parts: &[Map<String, Value>]| -> Vec<Value> {
            parts.iter().filter_map(|map| member(map, name)).collect()
        };
        let (a, b) = (asked(a), asked(b));
        a.iter().any(|x| b.iter().any(|y| disjoint(x, y, resolve, depth)))
            || a.iter().chain(&b).any(|schema| *schema == Value::Bool(false))
    })
}

/// What a schema asks of a member.
fn member(map: &Map<String, Value>, name: &str) -> Option<Value> {
    if let Some(schema) = map.get("properties").and_then(|p| p.get(name)) {
        return Some(schema.clone());
    }
    let closed = map.get("additionalProperties") == Some(&Value::Bool(false));
    (closed && !map.contains_key("patternProperties")).then_some(Value::Bool(false))
}
