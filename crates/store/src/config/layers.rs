//! `layer_types` from the older ways to say which layer is of which kind.

use super::tree;
use crate::error::{FormatError, Result, quoted};
use crate::json::describe;
use serde_json::{Map, Value};
use std::path::Path;

/// More layers than any model has; lists by layer are not made longer, whatever a file says.
pub(super) const MAX_LAYERS: usize = 4096;

/// An older key, whether it holds the period of the odd layers or a truth value for each layer, and the kinds.
struct OldLayerKey {
    key: &'static str,
    /// Kind of the layers that are not every n-th, or that are marked true.
    common: &'static str,
    /// Kind of every n-th layer, or of those marked false.
    other: &'static str,
}

const OLD: &[OldLayerKey] = &[
    OldLayerKey { key: "sliding_window_pattern", common: "sliding_attention", other: "full_attention" },
    OldLayerKey { key: "_sliding_window_pattern", common: "sliding_attention", other: "full_attention" },
    OldLayerKey { key: "recurrent_layers", common: "linear_attention", other: "full_attention" },
    OldLayerKey { key: "full_attention_interval", common: "linear_attention", other: "full_attention" },
];

/// Replaces the older keys by `layer_types`, one name for each layer. A list that is there already stays.
pub(super) fn normalise(file: &Path, tree: &mut Map<String, Value>) -> Result<()> {
    for old in OLD {
        let Some(value) = tree.shift_remove(old.key).filter(|v| !v.is_null()) else { continue };
        if tree.get("layer_types").is_none_or(Value::is_null) {
            let kinds = kinds(file, tree, old, &value)?;
            tree.insert("layer_types".to_owned(), kinds.into());
        }
    }
    Ok(())
}

fn kinds(
    file: &Path,
    tree: &Map<String, Value>,
    old: &OldLayerKey,
    value: &Value,
) -> Result<Vec<&'static str>> {
    let wrong = |key: &str, wanted: String, found: String| FormatError::WrongType {
        file: file.to_owned(),
        key: quoted(key),
        wanted,
        found,
    };
    let marks = value.as_array().and_then(|l| l.iter().map(Value::as_bool).collect::<Option<Vec<bool>>>());
    let name = |marks: Vec<bool>| marks.into_iter().map(|m| if m { old.common } else { old.other }).collect();
    if let Some(marks) = marks {
        return Ok(name(marks));
    }
    let local = |i: usize| match value {
        // EXAONE writes one letter for each layer of a period: local or global.
        Value::String(letters) if !letters.is_empty() => match letters.as_bytes()[i % letters.len()] {
            b'L' => Some(true),
            b'G' => Some(false),
            _ => None,
        },
        // A period of 0 has no layer of the other kind, as in llama.cpp.
        _ => tree::usize(value).map(|period| period == 0 || !(i + 1).is_multiple_of(period)),
    };
    let count = tree.get("num_hidden_layers");
    let layers = count.and_then(tree::usize).filter(|&n| n <= MAX_LAYERS).ok_or_else(|| {
        let found = count.map_or_else(|| "missing".to_owned(), describe);
        wrong("num_hidden_layers", format!("a whole number up to {MAX_LAYERS}"), found)
    })?;
    let marks: Option<Vec<bool>> = (0..layers).map(local).collect();
    marks.map(name).ok_or_else(|| {
        wrong(old.key, "a period of layers, or a truth value for each layer".to_owned(), describe(value))
    })
}
