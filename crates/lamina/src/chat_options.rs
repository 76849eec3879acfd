//! What a conversation asks of the template, of tools and of reasoning.

use lamina_chat::ToolChoice;
use lamina_image::Picture;
use lamina_sound::Sound;
use serde_json::{Map, Value};
use std::sync::Arc;

/// What a template may use beside the messages.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChatOptions {
    /// Tools as JSON schemas.
    pub tools: Option<Vec<Value>>,
    /// The text ends where the answer begins; set unless a template is only looked at.
    pub no_generation_prompt: bool,
    /// Special tokens that messages, tools and variables spell are read as tokens, as other engines do. Unless set they
    /// stay text: a message cannot end its turn. Never set it for text of a stranger.
    pub no_split_special_tokens: bool,
    /// Another template than the model's, as Jinja source.
    pub template: Option<String>,
    /// Further variables of the template, such as `enable_thinking`.
    pub variables: Map<String, Value>,
    /// Which tools the answer may or must call. With [`ToolChoice::None`] the model is not shown any.
    pub tool_choice: ToolChoice,
    /// At most one tool is called.
    pub one_call: bool,
    /// Whether the model is to reason before it answers.
    pub reasoning: ReasoningMode,
    /// Text before the mark that closes reasoning whose budget is spent.
    pub reasoning_end: String,
    /// Another format of calls than the template's, by its name.
    pub format: Option<String>,
    /// Pictures of the messages, in the order of the parts that [`take_pictures`](lamina_chat::take_pictures) finds.
    pub images: Vec<Arc<Picture>>,
    /// Sounds of the messages, in the order of the parts that [`take_sounds`](lamina_chat::take_sounds) finds.
    pub sounds: Vec<Arc<Sound>>,
}

/// Whether a model is to reason before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReasoningMode {
    /// As the template has it.
    #[default]
    Template,
    /// Not at all.
    Off,
    /// As long as it likes.
    On,
    /// Up to so many tokens.
    Budget(usize),
}
