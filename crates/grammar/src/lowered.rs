//! Sources lowered to the form of the library.

use serde_json::Value;

use crate::nesting;

/// A source in the form of the library.
#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) enum Lowered {
    /// A JSON schema of which every keyword is enforced.
    Schema(Value),
    /// Lark in pieces: tokens get their ids when the vocabulary is known.
    Lark(Vec<LarkPiece>),
}

/// A part of a Lark grammar.
#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) enum LarkPiece {
    Text(String),
    /// A token named by its text; negated: any other token.
    Named {
        name: String,
        negated: bool,
    },
    /// Tokens by number, as the source writes them in `<[..]>`.
    Numbered(String),
}

impl Lowered {
    /// Lark without tokens.
    pub fn text(text: String) -> Lowered {
        Lowered::Lark(vec![LarkPiece::Text(text)])
    }

    /// A bound of how deep the library recurses over it.
    pub fn nesting(&self) -> usize {
        match self {
            Lowered::Schema(value) => nesting::of_lowered(value),
            Lowered::Lark(pieces) => {
                pieces.iter().map(|p| if let LarkPiece::Text(t) = p { nesting::of_text(t) } else { 0 }).sum()
            }
        }
    }

    /// Size of the source, roughly.
    pub fn bytes(&self) -> usize {
        match self {
            Lowered::Schema(value) => size(value),
            Lowered::Lark(pieces) => {
                pieces.iter().map(|p| if let LarkPiece::Text(t) = p { t.len() } else { 16 }).sum()
            }
        }
    }
}

/// About as many bytes as `value` takes as text, which is not written for it: that would be a twentieth of the time to
/// the first mask.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(list) => 2 + list.iter().map(|one| size(one) + 1).sum::<usize>(),
        Value::Object(map) => 2 + map.iter().map(|(key, one)| key.len() + 4 + size(one)).sum::<usize>(),
    }
}

/// How a schema is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SchemaOptions {
    /// Leave out what cannot be enforced, and say so in [`Grammar::warnings`], instead of refusing it.
    pub lenient: bool,
    /// No white space between tokens, instead of up to 128 characters of it.
    pub compact: bool,
    /// Objects have no members beside those that they name, where the schema does not speak of others: see [`closed`].
    ///
    /// [`closed`]: crate::closed
    pub closed: bool,
}
