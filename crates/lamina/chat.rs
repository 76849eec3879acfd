//! Conversations through the model's own template.

use crate::{
    Error, Result,
    generate::{GenerateOptions, TokenStream},
    model::Model,
};
use lamina_text::{ChatTemplate, Conversation, ToolChoice};
use serde_json::{Map, Value};

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

impl Model {
    /// The text that `messages` become.
    ///
    /// # Errors
    /// When the model has no tokenizer, or its template refuses the messages.
    pub fn apply_chat_template(&self, messages: &[Value], options: &ChatOptions) -> Result<String> {
        self.conversation(messages, options, |template, conversation| Ok(template.render(conversation)?))
    }

    /// The tokens that `messages` become; the beginning token stands once.
    ///
    /// # Errors
    /// As for [`Model::apply_chat_template`].
    pub fn chat_tokens(&self, messages: &[Value], options: &ChatOptions) -> Result<Vec<u32>> {
        let tokenizer = self.need_tokenizer()?;
        self.conversation(messages, options, |template, conversation| {
            Ok(match options.no_split_special_tokens {
                true => template.encode_all_special(conversation, tokenizer)?,
                false => template.encode(conversation, tokenizer)?,
            })
        })
    }

    /// Streams the answer to a conversation, within the form that was asked for. [`Model::prepare_chat`] also takes it
    /// apart.
    ///
    /// # Errors
    /// As for [`Model::apply_chat_template`] and [`Model::stream_chat`].
    pub fn chat(
        &self,
        messages: &[Value],
        chat: &ChatOptions,
        options: &GenerateOptions,
    ) -> Result<TokenStream> {
        self.stream_chat(&mut self.prepare_chat(messages, chat)?, options)
    }

    pub(crate) fn chat_template(&self, options: &ChatOptions) -> Result<ChatTemplate> {
        let tokenizer = self.need_tokenizer()?;
        Ok(match &options.template {
            Some(source) => ChatTemplate::new(source)?,
            None => ChatTemplate::of_tokenizer(tokenizer, options.tools.is_some())?,
        })
    }

    fn conversation<T>(
        &self,
        messages: &[Value],
        options: &ChatOptions,
        f: impl FnOnce(&ChatTemplate, &Conversation<'_>) -> Result<T>,
    ) -> Result<T> {
        let tokenizer = self.need_tokenizer()?;
        if messages.is_empty() {
            return Err(Error::InvalidRequest("the conversation is empty: give at least one message".into()));
        }
        let template = self.chat_template(options)?;
        let mut conversation = Conversation::new(messages, tokenizer);
        conversation.tools = options.tools.as_deref();
        conversation.add_generation_prompt = !options.no_generation_prompt;
        conversation.variables = (!options.variables.is_empty()).then_some(&options.variables);
        f(&template, &conversation)
    }
}
