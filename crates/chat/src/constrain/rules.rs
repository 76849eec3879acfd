//! What an answer may be: which tools it may call, and how it is written.

use serde_json::Value;

use super::lark::MarkTokens;

/// Which calls an answer may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// None.
    None,
    /// At least one, and nothing else.
    Required,
    /// One of this tool, and nothing else.
    Named(String),
}

/// What an answer may be.
pub struct ToolRules<'a> {
    /// Tools, as `{"type": "function", "function": {..}}` or the function alone.
    pub tools: &'a [Value],
    /// Which calls.
    pub choice: &'a ToolChoice,
    /// Whether there may be several calls.
    pub parallel: bool,
    /// What the answer is where it is no call, as an expression of Lark; none where it is any text.
    pub answer: Option<&'a str>,
    /// Whether the answer may begin with reasoning, where its format writes that as a message of its own.
    pub thoughts: bool,
    /// Marks as the model's vocabulary has them.
    pub marks: MarkTokens<'a>,
    /// A schema as it is enforced, or why it cannot be.
    pub enforced: &'a dyn Fn(Value) -> Result<Value, String>,
}

/// A tool, ready to be written.
pub(super) struct ToolSchema {
    pub name: String,
    pub schema: Value,
    pub strict: bool,
}
