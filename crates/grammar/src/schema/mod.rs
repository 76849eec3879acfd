//! JSON schemas, made into what the library enforces whole.
//!
//! The library ignores what it does not know and enforces some keywords in part. So every schema is rewritten here
//! first, subschema by subschema: references are resolved, older drafts are spelled as 2020-12, keywords that have an
//! exact form in others get it, and what is left over is refused with its place. What comes out holds only keywords
//! that are enforced exactly.

mod arrays;
mod closure;
mod depth;
mod ecma;
mod formats;
mod keywords;
mod members;
mod negate;
mod numbers;
mod object;
mod one_of;
mod references;
mod refs;
mod rewritten;
mod shared;
mod strings;
mod values;
mod walk;

use serde_json::{Map, Value, json};

pub use closure::closed;
use keywords::object_of;
pub(crate) use strings::patterns_of_formats;

use crate::error::{GrammarError, Result};
use crate::lowered::SchemaOptions;

/// White space between tokens of JSON as people and programs write it: a space, or a line and its indent. Bounded, since
/// a weak model would write white space for ever.
pub(crate) const WHITE_SPACE: &str = r"\x20|\x0D?\x0A[\x20\x09]{0,40}";
/// Escapes in strings. Without `\u`: a key could be spelled in two ways, and then `additionalProperties` would let in
/// under its second spelling what `properties` forbids.
pub(crate) const ESCAPES: &str = "nrbtf\\\"";

/// `schema` with exactly enforced keywords only, and what was left out or is not known.
pub(crate) fn normalize(schema: &Value, options: SchemaOptions) -> Result<(Value, Vec<String>)> {
    if options.closed {
        match enforced(&closed(schema), options) {
            // Closed, it asks for what cannot be enforced.
            Err(GrammarError::Refused { .. }) => {}
            made => return made,
        }
    }
    enforced(schema, options)
}

fn enforced(schema: &Value, options: SchemaOptions) -> Result<(Value, Vec<String>)> {
    let mut walk = walk::Walk::new(schema, options.lenient)?;
    let mut root = match walk.document()? {
        Value::Object(map) => map,
        Value::Bool(true) => Map::new(),
        // The library takes options in objects only.
        _ => object_of([("enum", json!([]))]),
    };
    shared::patterns(&mut root);
    let mut library = json!({ "json_allowed_escapes": ESCAPES, "whitespace_pattern": WHITE_SPACE });
    if options.compact {
        library = json!({ "json_allowed_escapes": ESCAPES, "whitespace_flexible": false });
    }
    root.insert("x-guidance".into(), library);
    Ok((Value::Object(root), walk.into_warnings()))
}
