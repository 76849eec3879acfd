//! Chat templates as tokenizers bring them.

/// A chat template that came with a tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatTemplateSource {
    /// `default`, `tool_use`, `rag` or what the model's maker calls it.
    pub name: String,
    /// Jinja source.
    pub source: String,
}
