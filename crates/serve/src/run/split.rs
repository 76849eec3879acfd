//! An answer's text split into reasoning, text and tool calls while it streams.

use super::{delta::DeltaPart, indentation::Indentation};
use lamina::{ChatAnswer, ChatReader, Delta};
use std::sync::Arc;

/// How the text of answers is split.
#[derive(Clone, Default)]
pub enum Split {
    /// It is text as it is.
    #[default]
    Plain,
    /// It is text that ends before a line with less white space in front.
    Indented(usize),
    /// By the marks of the model's format.
    Chat(Arc<ChatAnswer>),
}

/// Splits the text of one answer.
pub(super) struct AnswerSplitter {
    chat: Option<ChatReader>,
    indentation: Option<Indentation>,
    calls: usize,
}

impl AnswerSplitter {
    /// The same `seed` gives the same ids of calls.
    pub fn new(split: &Split, seed: Option<u64>) -> AnswerSplitter {
        let (chat, indentation) = match split {
            Split::Plain => (None, None),
            Split::Indented(least) => (None, Some(Indentation::new(*least))),
            Split::Chat(chat) => (Some(chat.reader_with(seed)), None),
        };
        AnswerSplitter { chat, indentation, calls: 0 }
    }

    /// The parts that became certain with `text`, which came with `token`.
    pub fn push(&mut self, text: String, token: Option<u32>) -> Vec<DeltaPart> {
        if let Some(indentation) = &mut self.indentation {
            return vec![DeltaPart::Text(indentation.push(&text))];
        }
        let Some(reader) = &mut self.chat else { return vec![DeltaPart::Text(text)] };
        let deltas = reader.push_text(&text, token);
        self.parts(deltas)
    }

    /// The parts that were held back.
    pub fn finish(&mut self) -> Vec<DeltaPart> {
        if let Some(indentation) = &mut self.indentation {
            return vec![DeltaPart::Text(indentation.finish())];
        }
        let deltas = self.chat.as_mut().map(ChatReader::finish).unwrap_or_default();
        self.parts(deltas)
    }

    /// Tool calls so far.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// True once nothing of what follows is part of the answer.
    pub fn over(&self) -> bool {
        self.indentation.as_ref().is_some_and(Indentation::over)
    }

    fn parts(&mut self, deltas: Vec<Delta>) -> Vec<DeltaPart> {
        let part = |delta| match delta {
            Delta::Content(text) => Some(DeltaPart::Text(text)),
            Delta::Reasoning(text) => Some(DeltaPart::Reasoning(text)),
            Delta::ToolStart { index, id, name } => {
                self.calls += 1;
                Some(DeltaPart::ToolStart { call: index, id, name })
            }
            Delta::ToolArguments { index, text } => {
                Some(DeltaPart::ToolArguments { call: index, json: text })
            }
            Delta::ToolEnd { .. } => None,
        };
        deltas.into_iter().filter_map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamina::ChatFormat;
    use serde_json::Value;

    #[test]
    fn calls_are_split_off_only_where_there_are_tools() {
        let format = ChatFormat::named("hermes").expect("a format");
        let split = |tools: Vec<Value>| {
            let mut chat = ChatAnswer::new(format, lamina::tokenizer(None).expect("the packaged tokenizer"));
            (chat.marks, chat.inside, chat.tools) = (Some(format.reasoning), true, tools);
            let mut splitter = AnswerSplitter::new(&Split::Chat(Arc::new(chat)), None);
            let mut parts = vec![];
            for piece in
                ["Hm</thi", "nk>Yes <tool_call>\n{\"name\": \"now\", ", "\"arguments\": {}}\n</tool_call>"]
            {
                parts.extend(splitter.push(piece.into(), None));
            }
            parts.extend(splitter.finish());
            (parts, splitter.calls())
        };
        let tool = serde_json::json!({ "type": "function", "function": { "name": "now" } });
        let (parts, calls) = split(vec![tool]);
        assert_eq!(calls, 1);
        assert!(parts.contains(&DeltaPart::Reasoning("Hm".into())), "{parts:?}");
        assert!(parts.iter().any(|p| matches!(p, DeltaPart::ToolStart { name, .. } if name == "now")));
        let (parts, calls) = split(vec![]);
        let text: String = parts
            .iter()
            .filter_map(|p| if let DeltaPart::Text(t) = p { Some(t.as_str()) } else { None })
            .collect();
        assert!(calls == 0 && text.contains("<tool_call>"), "{parts:?}");
    }
}
