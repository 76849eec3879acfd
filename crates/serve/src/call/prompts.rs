//! Prompts as bodies give them: a text, token ids, both mixed, or lists of these.

use super::{HttpCall, pooled};
use crate::{
    body::{kind, typed},
    error::ApiError,
    models::{Lease, TextRoom},
};
use lamina::{Model, Special};
use serde_json::Value;

/// A piece of a prompt.
enum PromptPiece {
    Text(String),
    Tokens(Vec<u32>),
}

impl HttpCall {
    /// Tokens of all prompts in `value`, which is the body's field at `path`. Special tokens in texts are read, as
    /// other servers do at these endpoints.
    ///
    /// # Errors
    /// When it is no prompt, or the model has no tokenizer for its texts.
    pub async fn prompts(&self, lease: &Lease, value: Value, path: &str) -> Result<Vec<Vec<u32>>, ApiError> {
        let log = self.app.options.log_prompts.then(|| self.log.clone());
        let (model, room, path) = (lease.live.model.clone(), self.text_room(lease), path.to_owned());
        pooled(move || {
            let given = several(value, &path)?;
            if let Some(log) = log {
                log.entry().prompt = Some(given.iter().flatten().map(shown).collect());
            }
            given.into_iter().map(|pieces| tokens(&model, pieces, room)).collect()
        })
        .await
    }
}

fn shown(piece: &PromptPiece) -> String {
    match piece {
        PromptPiece::Text(text) => text.clone(),
        PromptPiece::Tokens(ids) => format!("{ids:?}"),
    }
}

fn tokens(model: &Model, pieces: Vec<PromptPiece>, room: TextRoom) -> Result<Vec<u32>, ApiError> {
    room.check(pieces.iter().map(|p| if let PromptPiece::Text(text) = p { text.len() } else { 0 }).sum())?;
    let mut all = vec![];
    for piece in pieces {
        match piece {
            PromptPiece::Tokens(ids) => all.extend(ids),
            // What stands around a text stands around all of it.
            PromptPiece::Text(text) => {
                let special = if all.is_empty() { Special::ADD_AND_PARSE } else { Special::PARSE };
                all.extend(model.tokenize(&text, special)?);
                if all.is_empty() {
                    // An empty text still has a beginning.
                    all.extend(model.need_tokenizer()?.bos());
                }
            }
        }
    }
    Ok(all)
}

/// A list whose items are all texts, or lists, is a list of prompts; other lists are one.
fn several(value: Value, path: &str) -> Result<Vec<Vec<PromptPiece>>, ApiError> {
    let Value::Array(list) = value else { return Ok(vec![one(value, path)?]) };
    let lists = list.iter().any(Value::is_array) || list.iter().all(Value::is_string);
    if !lists {
        return Ok(vec![one(Value::Array(list), path)?]);
    }
    list.into_iter().enumerate().map(|(i, item)| one(item, &format!("{path}[{i}]"))).collect()
}

fn one(value: Value, path: &str) -> Result<Vec<PromptPiece>, ApiError> {
    match value {
        Value::String(text) => Ok(vec![PromptPiece::Text(text)]),
        Value::Array(list) if list.iter().any(Value::is_string) => {
            let piece = |(i, item)| match item {
                Value::String(text) => Ok(PromptPiece::Text(text)),
                id => Ok(PromptPiece::Tokens(vec![typed(id, &format!("{path}[{i}]"))?])),
            };
            list.into_iter().enumerate().map(piece).collect()
        }
        Value::Array(list) => Ok(vec![PromptPiece::Tokens(typed(Value::Array(list), path)?)]),
        other => {
            let text =
                format!("{path} is {}, but must be a text, token ids, or a list of them", kind(&other));
            Err(ApiError::at(path, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_of_texts_and_of_lists_are_several_prompts() {
        let count = |value| several(value, "prompt").map(|p| p.len());
        assert_eq!(count(json!("a")), Ok(1));
        assert_eq!(count(json!([1, 2])), Ok(1));
        assert_eq!(count(json!(["a", "b"])), Ok(2));
        assert_eq!(count(json!([[1], [2, 3], "c"])), Ok(3));
        assert_eq!(count(json!([1, "a", 2])), Ok(1));
        assert_eq!(count(json!([])), Ok(0));
        assert_eq!(several(json!([1, -2]), "prompt").err().unwrap().param.as_deref(), Some("prompt[1]"));
        assert_eq!(
            several(json!([["a", {}]]), "prompt").err().unwrap().param.as_deref(),
            Some("prompt[0][1]")
        );
        assert!(several(json!(7), "prompt").is_err());
    }
}
