//! Special tokens that a conversation's own text spells stay text: only the template's text may make control tokens.
//! Where a message has `<|im_end|>`, a mark is put into it before the template sees it, and taken out when the text
//! between real control tokens is tokenized. Templates look for markup such as `</think>` in answers; that is found as
//! before, unless the vocabulary has it as a control token.

use serde_json::{Map, Value};

use crate::conversation::Conversation;
use crate::error::ChatError;
use lamina_tokenize::{LongText, Tokenizer};

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
        Self::around(conversation, source, tokenizer, &[])
    }

    /// The same, with `words` broken too: they would stand for pictures. None where there is nothing to break.
    pub fn around(
        conversation: &Conversation<'_>,
        source: &str,
        tokenizer: &Tokenizer,
        words: &[&str],
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
        let breaker = Breaker { mark, words, tokenizer };
        if !texts.iter().any(|text| breaker.broken(text).is_some()) {
            return Ok(None);
        }
        let list = |list: &[Value]| list.iter().map(|value| breaker.value(value)).collect::<Vec<_>>();
        Ok(Some(Marked {
            mark,
            messages: list(conversation.messages),
            tools: conversation.tools.map(list),
            documents: conversation.documents.map(list),
            variables: conversation.variables.map(|map| breaker.object(map)),
        }))
    }

    /// The rendered text on its way to ids; what is marked in it stays text.
    pub fn encode(&self, rendered: &str, tokenizer: &Tokenizer) -> Result<LongText, ChatError> {
        // JSON in ASCII writes the mark as an escape.
        let escaped = format!("\\u{:04x}", u32::from(self.mark));
        Ok(LongText::chat(tokenizer, &rendered.replace(&escaped, ""), Some(self.mark))?)
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

/// Puts the mark into texts.
struct Breaker<'a> {
    mark: char,
    words: &'a [&'a str],
    tokenizer: &'a Tokenizer,
}

impl Breaker<'_> {
    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => Value::Object(self.object(map)),
            other => other.clone(),
        }
    }

    fn object(&self, map: &Map<String, Value>) -> Map<String, Value> {
        map.iter().map(|(key, value)| (self.text(key), self.value(value))).collect()
    }

    fn text(&self, text: &str) -> String {
        self.broken(text).unwrap_or_else(|| text.to_owned())
    }

    /// The text with marks, if it needs any.
    fn broken(&self, text: &str) -> Option<String> {
        let mut whole = text.to_owned();
        self.words.iter().for_each(|word| self.word(&mut whole, word));
        match self.tokenizer.break_special(&whole, self.mark) {
            None => (whole != text).then_some(whole),
            broken => broken,
        }
    }

    /// A mark in each `word`, and behind a beginning of it at the end of the text, which the next part may complete.
    fn word(&self, text: &mut String, word: &str) {
        let Some(first) = word.chars().next().map(char::len_utf8).filter(|&n| n < word.len()) else { return };
        if text.contains(word) {
            *text = text.replace(word, &format!("{}{}{}", &word[..first], self.mark, &word[first..]));
        }
        let begun = word.char_indices().skip(1).any(|(at, _)| text.ends_with(&word[..at]));
        if begun {
            text.push(self.mark);
        }
    }
}
