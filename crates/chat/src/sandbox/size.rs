//! How large a value is when it is written out, or walked: a list may hold the same list twice, and that the same
//! again, so that a few bytes print as billions. Everything that goes through a whole value measures it first.

use std::borrow::Cow;

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::meter::{self, DEPTH, ITEM, exceeded, work};

/// What a value is made of, as if it were a tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TreeSize {
    /// Values, containers included.
    pub nodes: usize,
    /// Bytes of the strings.
    pub bytes: usize,
}

impl TreeSize {
    /// An upper bound of the text of a value: quotes, escapes and commas included.
    pub fn printed(self) -> usize {
        self.nodes.saturating_mul(ITEM).saturating_add(self.bytes.saturating_mul(4))
    }
}

/// Measures a value. Fails where it is deeper than [`DEPTH`], as all that hold themselves are, or has more parts
/// than the work that is left.
pub(super) fn measure(value: &Value) -> Result<TreeSize, Error> {
    let mut size = TreeSize::default();
    add(value, 0, &mut size)?;
    Ok(size)
}

/// Measures several values at once.
pub(super) fn measure_all(values: &[Value]) -> Result<TreeSize, Error> {
    let mut size = TreeSize::default();
    values.iter().try_for_each(|value| add(value, 0, &mut size))?;
    Ok(size)
}

fn add(value: &Value, depth: usize, size: &mut TreeSize) -> Result<(), Error> {
    size.nodes += 1;
    if let Some(text) = value.as_str() {
        size.bytes = size.bytes.saturating_add(text.len());
        return work(40 + text.len() / 8);
    }
    work(60)?;
    let kind = value.kind();
    if !matches!(kind, ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) {
        return Ok(());
    }
    if depth == DEPTH {
        return Err(exceeded(format!("a value is nested deeper than {DEPTH}, or holds itself")));
    }
    for item in value.try_iter()? {
        if kind == ValueKind::Map {
            add(&value.get_item(&item)?, depth + 1, size)?;
        }
        add(&item, depth + 1, size)?;
    }
    Ok(())
}

/// Bytes of a conversation's value, for the share that it gives to its rendering. Built from JSON, so it is shallow.
pub(crate) fn length(value: &Value) -> usize {
    if let Some(text) = value.as_str() {
        return ITEM + text.len();
    }
    let Ok(items) = value.try_iter() else { return ITEM };
    let of_map = value.kind() == ValueKind::Map;
    let lengths = items.map(|item| match value.get_item(&item) {
        Ok(held) if of_map => length(&item) + length(&held),
        _ => length(&item),
    });
    ITEM + lengths.sum::<usize>()
}

/// A value that is compared, hashed or looked up as a whole.
pub(super) fn walkable(value: &Value) -> Result<(), Error> {
    match value.as_object() {
        Some(_) => measure(value).map(|_| ()),
        None => work(value.as_str().map_or(1, |text| 1 + text.len() / 8)),
    }
}

/// The text of a value, as `{{ value }}` writes it.
pub(super) fn text(value: &Value) -> Result<Cow<'_, str>, Error> {
    match value.as_str() {
        Some(text) => Ok(Cow::Borrowed(text)),
        None => {
            meter::affordable(measure(value)?.printed())?;
            let text = value.to_string();
            meter::memory(text.len())?;
            Ok(Cow::Owned(text))
        }
    }
}

/// Counts a new container with these items if it holds a container.
pub(super) fn nested(items: &[Value]) -> Result<(), Error> {
    work(1 + items.len())?;
    if items.iter().any(|item| item.as_object().is_some()) { meter::nest() } else { Ok(()) }
}

/// A list of new items.
pub(super) fn list(items: Vec<Value>) -> Result<Value, Error> {
    meter::memory(items.len() * ITEM)?;
    nested(&items)?;
    Ok(Value::from(items))
}
