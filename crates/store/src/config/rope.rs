//! Rotary position settings: every older spelling brought to `rope_parameters` of transformers 5.

use super::tree;
use crate::error::{FormatError, Result, quoted};
use crate::json::describe;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Older names of scaling types.
const TYPE_NAMES: &[(&str, &str)] = &[("su", "longrope"), ("mrope", "default")];

/// Scaling types that need to know the context length the model was first trained with.
const NEED_ORIGINAL: &[&str] = &["longrope", "yarn"];

/// Kinds of layers that can have settings of their own.
const SECTIONS: &[&str] = &["full_attention", "sliding_attention", "chunked_attention"];

/// Model types whose sliding layers never share the scaling of the full ones.
const OWN_SLIDING: &[&str] = &["gemma3", "gemma3_text", "gemma3n", "gemma3n_text"];

/// Moves `rope_theta`, `rotary_emb_base`, `rope_scaling` (with `type` or `rope_type`), `rope_local_base_freq`,
/// `partial_rotary_factor` and `rotary_pct` into `rope_parameters`; those of a model with two kinds of layers into
/// `rope_parameters.full_attention` and `.sliding_attention`. What is in the new form already stays as it is.
/// `original_max_position_embeddings` of the top level is copied to where yarn and longrope need it.
pub(super) fn normalise(file: &Path, tree: &mut Map<String, Value>) -> Result<()> {
    let old = OldRope::take(tree);
    let mut rope = object(file, tree, "rope_scaling")?;
    rope.extend(object(file, tree, "rope_parameters")?);
    if rope.is_empty() && old.is_empty() {
        return Ok(());
    }
    let model_type = tree.get("model_type").and_then(Value::as_str).unwrap_or_default();
    let split = SECTIONS.iter().any(|s| rope.get(*s).is_some_and(Value::is_object));
    if !split && (old.local_theta.is_some() || OWN_SLIDING.contains(&model_type)) {
        let full = std::mem::take(&mut rope);
        rope.insert("full_attention".to_owned(), Value::Object(full));
        rope.insert("sliding_attention".to_owned(), json!({}));
    }
    let original = tree.get("original_max_position_embeddings").filter(|v| !v.is_null()).cloned();
    let mut sections = 0;
    for (name, section) in rope.iter_mut().filter(|(name, _)| SECTIONS.contains(&name.as_str())) {
        if let Value::Object(section) = section {
            let sliding = name == "sliding_attention";
            let theta =
                if sliding { old.local_theta.as_ref().or(old.theta.as_ref()) } else { old.theta.as_ref() };
            // A sliding layer's base is not that of the full ones where the model has two: its family knows it.
            let theta =
                theta.filter(|_| !sliding || old.local_theta.is_some() || !OWN_SLIDING.contains(&model_type));
            complete(section, theta, old.partial.as_ref(), original.as_ref());
            sections += 1;
        }
    }
    if sections == 0 {
        complete(&mut rope, old.theta.as_ref(), old.partial.as_ref(), original.as_ref());
    }
    tree.insert("rope_parameters".to_owned(), Value::Object(rope));
    Ok(())
}

/// Settings that used to stand at the top level.
struct OldRope {
    theta: Option<Value>,
    local_theta: Option<Value>,
    partial: Option<Value>,
}

impl OldRope {
    fn take(tree: &mut Map<String, Value>) -> OldRope {
        let mut first = |names: &[&str]| {
            let values: Vec<Value> = names.iter().filter_map(|n| tree::take(tree, n)).collect();
            values.into_iter().find(|v| !v.is_null())
        };
        OldRope {
            theta: first(&["rope_theta", "rotary_emb_base"]),
            local_theta: first(&["rope_local_base_freq"]),
            partial: first(&["partial_rotary_factor", "rotary_pct", "rope_pct"]),
        }
    }

    fn is_empty(&self) -> bool {
        self.theta.is_none() && self.local_theta.is_none() && self.partial.is_none()
    }
}

/// Fills one set of rope settings with what it lacks.
fn complete(
    section: &mut Map<String, Value>,
    theta: Option<&Value>,
    partial: Option<&Value>,
    original: Option<&Value>,
) {
    let older = section.shift_remove("type").unwrap_or(Value::Null);
    let mut kind = section.get("rope_type").cloned().filter(|v| !v.is_null()).unwrap_or(older);
    if kind.is_null() {
        kind = "default".into();
    }
    if let Some((_, new)) = TYPE_NAMES.iter().find(|(old, _)| kind == *old) {
        kind = (*new).into();
    }
    let needs_original = NEED_ORIGINAL.iter().any(|k| kind == *k);
    section.insert("rope_type".to_owned(), kind);
    let original = original.filter(|_| needs_original);
    let fields = [
        ("rope_theta", theta),
        ("partial_rotary_factor", partial),
        ("original_max_position_embeddings", original),
    ];
    for (name, value) in fields {
        if let Some(value) = value.filter(|_| section.get(name).is_none_or(Value::is_null)) {
            section.insert(name.to_owned(), value.clone());
        }
    }
}

/// Takes the object at `key` out of the tree; `null` and nothing are an empty one.
fn object(file: &Path, tree: &mut Map<String, Value>, key: &str) -> Result<Map<String, Value>> {
    match tree.shift_remove(key) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map),
        Some(other) => Err(FormatError::WrongType {
            file: file.to_owned(),
            key: quoted(key),
            wanted: "an object".to_owned(),
            found: describe(&other),
        }),
    }
}
