//! Prompts as bodies give them: a text, token ids, both mixed, or lists of these.

use super::{HttpCall, pooled, tokens::PART};
use crate::{
    body::{kind, typed},
    error::ApiError,
    models::{Lease, TextRoom},
};
use lamina::{LongText, Model, Special};
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
        let mut work = pooled(move || {
            let given = several(value, &path)?;
            if let Some(log) = log {
                log.entry().prompt = Some(given.iter().flatten().map(shown).collect());
            }
            PromptWork::new(model, given, room)
        })
        .await?;
        while !work.is_done() {
            work = pooled(move || work.advance()).await?;
        }
        Ok(work.prompts)
    }
}

impl PromptPiece {
    /// Bytes of its text.
    fn bytes(&self) -> usize {
        match self {
            PromptPiece::Text(text) => text.len(),
            PromptPiece::Tokens(_) => 0,
        }
    }
}

fn shown(piece: &PromptPiece) -> String {
    match piece {
        PromptPiece::Text(text) => text.clone(),
        PromptPiece::Tokens(ids) => format!("{ids:?}"),
    }
}

/// Prompts that become tokens in parts.
struct PromptWork {
    model: Model,
    /// Pieces that have not begun, each with the number of its prompt; the last one first.
    pieces: Vec<(usize, PromptPiece)>,
    begun: Option<(usize, LongText)>,
    prompts: Vec<Vec<u32>>,
}

impl PromptWork {
    fn new(model: Model, given: Vec<Vec<PromptPiece>>, room: TextRoom) -> Result<PromptWork, ApiError> {
        for pieces in &given {
            room.check(pieces.iter().map(PromptPiece::bytes).sum())?;
        }
        let prompts = vec![vec![]; given.len()];
        let numbered = given.into_iter().enumerate();
        let mut pieces: Vec<_> =
            numbered.flat_map(|(at, all)| all.into_iter().map(move |p| (at, p))).collect();
        pieces.reverse();
        Ok(PromptWork { model, pieces, begun: None, prompts })
    }

    fn is_done(&self) -> bool {
        self.pieces.is_empty() && self.begun.is_none()
    }

    /// Does a part of what is left.
    fn advance(mut self) -> Result<PromptWork, ApiError> {
        let mut bytes = 0;
        while bytes < PART && !self.is_done() {
            bytes += self.begin()?;
            let Some((at, mut long)) = self.begun.take() else { continue };
            match long.advance(PART).map_err(lamina::Error::from)? {
                None => {
                    self.begun = Some((at, long));
                    bytes = PART;
                }
                Some(ids) => self.prompts[at].extend(ids),
            }
            if self.begun.is_none() && self.prompts[at].is_empty() {
                // An empty text still has a beginning.
                self.prompts[at].extend(self.model.need_tokenizer()?.bos());
            }
        }
        Ok(self)
    }

    /// Begins the next piece, unless one has begun; its bytes.
    fn begin(&mut self) -> Result<usize, ApiError> {
        let next = if self.begun.is_none() { self.pieces.pop() } else { None };
        let Some((at, piece)) = next else { return Ok(0) };
        let bytes = piece.bytes();
        match piece {
            PromptPiece::Tokens(ids) => self.prompts[at].extend(ids),
            // What stands around a text stands around all of it.
            PromptPiece::Text(text) => {
                let special =
                    if self.prompts[at].is_empty() { Special::ADD_AND_PARSE } else { Special::PARSE };
                self.begun = Some((at, self.model.long_text(&text, special)?));
            }
        }
        Ok(bytes)
    }
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
