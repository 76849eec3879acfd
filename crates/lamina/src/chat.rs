//! Conversations through the model's own template.

use crate::{
    Error, Result,
    answer::{ChatAnswer, PreparedChat},
    begun_chat::{BegunChat, ChatPrompt},
    chat_options::{ChatOptions, ReasoningMode},
    generate::{GenerateOptions, Prompt},
    model::Model,
    token_stream::TokenStream,
    tools::{ChatGrammar, grammar_key, reasoning_boundary},
};
use lamina_chat::{
    ChatError, ChatFormat, ChatTemplate, Conversation, ReasoningMarks, ToolChoice, has_pictures, has_sounds,
    reasoning_variables, take_pictures, take_sounds,
};
use serde_json::Value;

impl Model {
    /// The text that `messages` become.
    ///
    /// # Errors
    /// When the model has no tokenizer, or its template refuses the messages.
    pub fn apply_chat_template(&self, messages: &[Value], options: &ChatOptions) -> Result<String> {
        let seen = self.vision().filter(|_| has_pictures(messages));
        let heard = self.hearing().filter(|_| has_sounds(messages));
        let marked = match (seen, heard) {
            (Some(_), _) => Some((take_pictures(messages).0, self.marks()?)),
            (None, Some(_)) => Some((take_sounds(messages).0, self.sound_marks()?)),
            (None, None) => None,
        };
        if let Some((messages, marks)) = marked {
            return self.conversation(&messages, options, |template, conversation| {
                template.render_media(conversation, marks).map_err(refused)
            });
        }
        self.conversation(messages, options, |template, conversation| {
            template.render(conversation).map_err(refused)
        })
    }

    /// The tokens that `messages` become; the beginning token stands once.
    ///
    /// # Errors
    /// As for [`Model::apply_chat_template`]; also when the messages have other pictures than the options, or the model takes
    /// text only.
    pub fn chat_tokens(&self, messages: &[Value], options: &ChatOptions) -> Result<Vec<u32>> {
        self.chat_prompt(messages, options)?.rest()
    }

    fn chat_prompt(&self, messages: &[Value], options: &ChatOptions) -> Result<ChatPrompt> {
        let sees = !options.images.is_empty() || has_pictures(messages);
        let hears = !options.sounds.is_empty() || has_sounds(messages);
        match (sees, hears) {
            (true, true) => {
                self.need_pictures().and(self.need_sounds())?;
                return Err(Error::InvalidRequest("a conversation has pictures or sounds, not both".into()));
            }
            (true, false) => return Ok(ChatPrompt::Tokens(self.seeing_chat_tokens(messages, options)?)),
            (false, true) => return Ok(ChatPrompt::Tokens(self.hearing_chat_tokens(messages, options)?)),
            (false, false) => {}
        }
        let tokenizer = self.need_tokenizer()?;
        self.conversation(messages, options, |template, conversation| {
            let begun = match options.no_split_special_tokens {
                true => template.begin_all_special(conversation, tokenizer),
                false => template.begin(conversation, tokenizer),
            };
            begun.map(ChatPrompt::Text).map_err(refused)
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

    /// False where conversations are written by a default format, since the model brings no template.
    pub fn has_chat_template(&self) -> bool {
        self.tokenizer().is_some_and(|tokenizer| !tokenizer.chat_templates().is_empty())
    }

    /// The format of the model's template, by its name.
    ///
    /// # Errors
    /// When the model has no tokenizer, or its template cannot be read.
    pub fn chat_format(&self, tools: bool) -> Result<&'static ChatFormat> {
        let options = ChatOptions { tools: tools.then(Vec::new), ..ChatOptions::default() };
        Ok(ChatFormat::of_template(self.chat_template(&options)?.source()))
    }

    /// Prompt, format and reasoning of a conversation.
    ///
    /// # Errors
    /// As for [`Model::apply_chat_template`]; also when the format has no such name.
    pub fn prepare_chat(&self, messages: &[Value], options: &ChatOptions) -> Result<PreparedChat> {
        self.begin_chat(messages, options)?.rest()
    }

    /// The same, whose prompt becomes tokens in parts.
    ///
    /// # Errors
    /// As for [`Model::prepare_chat`].
    pub fn begin_chat(&self, messages: &[Value], options: &ChatOptions) -> Result<BegunChat> {
        let source = self.chat_template(options)?.source().to_owned();
        let format = match &options.format {
            Some(name) => ChatFormat::named(name).ok_or_else(|| unknown_format(name))?,
            None => ChatFormat::of_template(&source),
        };
        let mut warnings = Vec::new();
        let shown = shown(options, &source, &mut warnings);
        let prompt = self.chat_prompt(messages, &shown)?;
        let tools = shown.tools.unwrap_or_default();
        if !tools.is_empty() && format.name == "none" {
            warnings.push("the template writes no calls that are known: they stay text".into());
        }
        let calls = |message: &Value| message.get("tool_calls").and_then(Value::as_array).map_or(0, Vec::len);
        let answer = ChatAnswer {
            marks: ReasoningMarks::of_template(&source),
            warnings,
            tools,
            choice: options.tool_choice.clone(),
            one_call: options.one_call,
            reasoning: options.reasoning,
            reasoning_end: options.reasoning_end.clone(),
            earlier_calls: messages.iter().map(calls).sum(),
            ..ChatAnswer::new(format, self.need_tokenizer()?.clone())
        };
        Ok(BegunChat { prompt, images: options.images.clone(), sounds: options.sounds.clone(), answer })
    }

    /// Streams the answers to a conversation, each within the form that was asked for. What cannot be enforced is added
    /// to the warnings.
    ///
    /// # Errors
    /// As for [`Model::stream`]; also when a call is required and cannot be made, or a form cannot be enforced.
    pub fn stream_chat(&self, chat: &mut PreparedChat, options: &GenerateOptions) -> Result<TokenStream> {
        let (images, sounds) = (chat.images.clone(), chat.sounds.clone());
        let mut options = GenerateOptions { images, sounds, ..options.clone() };
        self.constrain_chat(&mut chat.answer, &mut options)?;
        self.stream(&Prompt::Tokens(chat.tokens.clone()), &options)
    }

    /// Gives `options` the grammar and the reasoning of a conversation's answers. A grammar that they have already is the
    /// form of the answer where it is no call. What cannot be enforced is added to the warnings.
    ///
    /// # Errors
    /// When a call is required and there is none to make, or the schema of a strict tool cannot be enforced.
    pub fn constrain_chat(&self, chat: &mut ChatAnswer, options: &mut GenerateOptions) -> Result<()> {
        let form = options.grammar.take();
        let reasoning = reasoning_boundary(chat)?;
        let key = grammar_key(chat, form.as_ref(), reasoning.is_some());
        let made = match self.shared.chat_grammars.get(&key) {
            Some(made) => made,
            None => {
                let made = ChatGrammar::of(chat, form.as_ref(), self.end_tokens(), reasoning.is_some())?;
                self.shared.chat_grammars.put(key, made.clone());
                made
            }
        };
        chat.warnings.extend(made.warnings);
        options.grammar = made.grammar;
        options.reasoning = reasoning.filter(|b| options.grammar.is_some() || b.budget.is_some());
        Ok(())
    }

    fn chat_template(&self, options: &ChatOptions) -> Result<ChatTemplate> {
        let tokenizer = self.need_tokenizer()?;
        let template = match &options.template {
            Some(source) => ChatTemplate::new(source),
            None => ChatTemplate::of_tokenizer(tokenizer, options.tools.is_some()),
        };
        template.map_err(refused)
    }

    pub(crate) fn conversation<T>(
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

fn unknown_format(name: &str) -> Error {
    let all: Vec<&str> = ChatFormat::all().iter().map(|format| format.name).collect();
    Error::InvalidRequest(format!("there is no chat format {name:?}: take one of {}", all.join(", ")))
}

/// The options that the template sees: tools only if they may be called, and whether to think.
fn shown(options: &ChatOptions, source: &str, warnings: &mut Vec<String>) -> ChatOptions {
    let mut shown = options.clone();
    if options.tool_choice == ToolChoice::None {
        shown.tools = None;
    }
    let on = match options.reasoning {
        ReasoningMode::Template => return shown,
        ReasoningMode::Off => false,
        ReasoningMode::On | ReasoningMode::Budget(_) => true,
    };
    let switches = reasoning_variables(source, on);
    if switches.is_empty() && ReasoningMarks::of_template(source).is_none() {
        warnings.push("the template has no reasoning: the option makes no difference".into());
    }
    for (name, value) in switches {
        shown.variables.entry(name).or_insert(value);
    }
    shown
}

/// A conversation that makes no prompt is the request's fault, unless there was no memory for it.
pub(crate) fn refused(error: ChatError) -> Error {
    match error.is_out_of_memory() {
        true => Error::OutOfMemory(error.to_string()),
        false => Error::InvalidRequest(error.to_string()),
    }
}
