//! What an answer is made of, in pieces and whole.

use serde_json::{Map, Value, json};

/// A piece of an answer. All pieces of a kind joined are that part of the whole answer, wherever the text was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Text for the user.
    Content(String),
    /// Reasoning, without its marks.
    Reasoning(String),
    /// A call begins. Its name and id come once and whole.
    ToolStart {
        /// Which call of the answer, from 0.
        index: usize,
        /// The model's own id, or a new one.
        id: String,
        /// The name of the tool.
        name: String,
    },
    /// A piece of the arguments' JSON text.
    ToolArguments {
        /// Which call of the answer.
        index: usize,
        /// The piece.
        text: String,
    },
    /// A call is over.
    ToolEnd {
        /// Which call of the answer.
        index: usize,
        /// Whether its arguments are whole; false where the answer was cut off, or went on otherwise.
        complete: bool,
    },
}

/// A call of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The model's own id, or a new one.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// JSON text of the arguments.
    pub arguments: String,
    /// Whether the arguments are whole.
    pub complete: bool,
}

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatMessage {
    /// Text for the user; None where there is none.
    pub content: Option<String>,
    /// Reasoning, without its marks.
    pub reasoning: Option<String>,
    /// Calls, in their order.
    pub tool_calls: Vec<ToolCall>,
}

impl ChatMessage {
    /// Appends a piece. Those of a call must come after its start.
    pub fn push(&mut self, delta: Delta) {
        match delta {
            Delta::Content(text) => self.content.get_or_insert_default().push_str(&text),
            Delta::Reasoning(text) => self.reasoning.get_or_insert_default().push_str(&text),
            Delta::ToolStart { id, name, .. } => {
                self.tool_calls.push(ToolCall { id, name, ..ToolCall::default() });
            }
            Delta::ToolArguments { index, text } => {
                if let Some(call) = self.tool_calls.get_mut(index) {
                    call.arguments.push_str(&text);
                }
            }
            Delta::ToolEnd { index, complete } => {
                if let Some(call) = self.tool_calls.get_mut(index) {
                    call.complete = complete;
                }
            }
        }
    }

    /// The message as it goes back into a conversation: role, content, `reasoning_content` and `tool_calls`, the last
    /// two only where there are any.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        out.insert("role".into(), "assistant".into());
        out.insert("content".into(), self.content.clone().into());
        if let Some(reasoning) = &self.reasoning {
            out.insert("reasoning_content".into(), reasoning.clone().into());
        }
        if !self.tool_calls.is_empty() {
            let call = |call: &ToolCall| {
                let function = json!({ "name": call.name, "arguments": call.arguments });
                json!({ "id": call.id, "type": "function", "function": function })
            };
            out.insert("tool_calls".into(), self.tool_calls.iter().map(call).collect());
        }
        Value::Object(out)
    }
}
