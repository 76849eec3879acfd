//! An answer taken apart, written while it comes.

use crate::{error::Result, output};
use lamina::{ChatMessage, Delta};
use serde_json::{Value, json};

/// Writes an answer while it comes, and keeps it.
#[derive(Debug, Default)]
pub struct AnswerPrinter(ChatMessage);

impl AnswerPrinter {
    /// Takes a piece. Text goes to stdout; reasoning is shown to people, in a fainter colour, and not to scripts.
    ///
    /// # Errors
    /// When stdout takes no more.
    pub fn push(&mut self, delta: Delta) -> Result<()> {
        match &delta {
            // White space before the first word is the template's affair, not the reader's.
            Delta::Content(text) if self.0.content.is_none() => {
                let text = text.trim_start();
                if text.is_empty() {
                    return Ok(());
                }
                output::text(text)?;
                self.0.push(Delta::Content(text.to_owned()));
                return Ok(());
            }
            Delta::Content(text) => output::text(text)?,
            Delta::Reasoning(text) => output::aside(text)?,
            Delta::ToolStart { .. } | Delta::ToolArguments { .. } | Delta::ToolEnd { .. } => {}
        }
        self.0.push(delta);
        Ok(())
    }

    /// Ends the text; each call is a line of JSON.
    ///
    /// # Errors
    /// When stdout takes no more.
    pub fn finish(&self) -> Result<()> {
        if self.0.content.is_some() || self.0.tool_calls.is_empty() {
            output::text("\n")?;
        }
        self.0.tool_calls.iter().try_for_each(|call| {
            // A call that was cut has half an object.
            let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
            output::json(&json!({ "name": call.name, "arguments": arguments }))
        })
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.content.as_deref().unwrap_or_default()
    }

    /// Calls as messages have them.
    pub fn calls(&self) -> Vec<Value> {
        let call = |call: &lamina::ToolCall| {
            json!({
                "id": call.id,
                "type": "function",
                "function": { "name": call.name, "arguments": call.arguments },
            })
        };
        self.0.tool_calls.iter().map(call).collect()
    }
}
