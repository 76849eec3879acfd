//! Special tokens that a conversation's own text spells stay text: only the template's text may make control tokens.
//! Where a message has `<|im_end|>`, a mark is put into it before the template sees it, and taken out when the text
//! between real control tokens is tokenized. Templates look for markup such as `</think>` in answers; that is found as
//! before, unless the vocabulary has it as a control token.

use serde_json::{Map, Value};

use crate::conversation::Conversation;
use crate::error::ChatError;
use lamina_tokenize::Tokenizer;

/// Code points that are no characters, for a program's own use: Unicode promises never to assign them.
const MARKS: std::ops::RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';

/// A conversation with marks in the special tokens that it spells.
pub(crate) struct Marked {
    pub mark: char,
    pub messages: Vec<Value>,
    pub tools: Option<Vec<Value>>,
    pub documents: Option<Vec<Value>>,
    pub variables: Option<Map<String, Value>>,
}

impl Marked {
    /// None where the conversation spells no special token.
    pub fn new(
        conversation: &Conversation<'_>,
        source: &str,
        tokenizer: &Tokenizer,
    ) -> Result<Option<Marked>, ChatError> {
        let mut texts = Vec::new();
        let lists = [Some(conversation.messages), conversation.tools, conversation.documents];
        lists.into_iter().flatten().flatten().for_each(|value| collect(value, &mut texts));
        conversation.variables.into_iter().flatten().for_each(|(_, value)| collect(value, &mut texts));
        let Some(mark) =
            MARKS.into_iter().find(|&mark| !source.contains(mark) && !texts.iter().any(|t| t.contains(mark)))
        else {
            let problem = "the messages use all code points that are no characters: remove U+FDD0";
            return Err(ChatError::Failed(problem.into()));
        };
        if !texts.iter().any(|text| tokenizer.break_special(text, mark).is_some()) {
            return Ok(None);
        }
        let list =
            |list: &[Value]| list.iter().map(|value| marked(value, mark, tokenizer)).collect::<Vec<_>>();
        Ok(Some(Marked {
            mark,
            messages: list(conversation.messages),
            tools: conversation.tools.map(list),
            documents: conversation.documents.map(list),
            variables: conversation.variables.map(|map| object(map, mark, tokenizer)),
        }))
    }

    /// The same conversation with the marked texts.
    pub fn conversation<'a>(&'a self, own: &Conversation<'a>) -> Conversation<'a> {
        Conversation {
            messages: &self.messages,
            tools: self.tools.as_deref(),
            documents: self.documents.as_deref(),
            variables: self.variables.as_ref(),
            ..own.clone()
        }
    }
}

fn collect<'v>(value: &'v Value, out: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => out.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect(item, out)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            out.push(key);
            collect(value, out);
        }),
        _ => {}
    }
}

fn marked(value: &Value, mark: char, tokenizer: &Tokenizer) -> Value {
    match value {
        Value::String(text) => Value::String(text_marked(text, mark, tokenizer)),
        Value::Array(items) => items.iter().map(|item| marked(item, mark, tokenizer)).collect(),
        Value::Object(map) => Value::Object(object(map, mark, tokenizer)),
        other => other.clone(),
    }
}

fn object(map: &Map<String, Value>, mark: char, tokenizer: &Tokenizer) -> Map<String, Value> {
    map.iter()
        .map(|(key, value)| (text_marked(key, mark, tokenizer), marked(value, mark, tokenizer)))
        .collect()
}

fn text_marked(text: &str, mark: char, tokenizer: &Tokenizer) -> String {
    tokenizer.break_special(text, mark).unwrap_or_else(|| text.to_owned())
}
