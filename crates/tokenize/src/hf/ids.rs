//! The vocabulary of a model: tokens by their texts.

use ahash::AHashMap;
use serde_json::Value;

/// Tokens by their texts.
pub(super) type TokenIds = AHashMap<Box<str>, u32>;

/// A vocabulary as an object of ids.
pub(super) fn read_ids(json: &Value) -> Result<TokenIds, String> {
    let vocab = json.get("vocab").and_then(Value::as_object).ok_or("needs an object vocab")?;
    let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
    let one = |(text, value): (&String, &Value)| {
        let id = id(value).ok_or_else(|| format!("token {text:?} has no id but {value}"))?;
        Ok((text.as_str().into(), id))
    };
    vocab.iter().map(one).collect()
}

/// The token that stands for what is unknown, by its text; it may be missing until it is needed.
pub(super) fn missing(token: &str) -> String {
    format!("the vocabulary has no token for a part of the text, nor its unknown token {token:?}")
}
