//! Chat templates: the Jinja source that a model ships, rendered as `transformers` renders it.

use lamina_tokenize::{LongText, Tokenizer};
use minijinja::Value;

use crate::conversation::Conversation;
use crate::defaults::DefaultTemplate;
use crate::error::ChatError;
use crate::own_text;
use crate::sandbox::{self, Clock, Sandbox};

/// A chat template whose source compiles. Shared freely between threads.
#[derive(Debug)]
pub struct ChatTemplate {
    sandbox: Sandbox,
    source: String,
    clock: Clock,
}

impl ChatTemplate {
    /// Compiles a template.
    pub fn new(source: &str) -> Result<ChatTemplate, ChatError> {
        let template =
            ChatTemplate { sandbox: Sandbox::new(source)?, source: source.to_owned(), clock: Clock::System };
        Ok(template.with_clock(Clock::System))
    }

    /// The template for a model: its own (`tool_use` when tools are given and there is one), else a default that
    /// its vocabulary suggests.
    pub fn of_tokenizer(tokenizer: &Tokenizer, tools: bool) -> Result<ChatTemplate, ChatError> {
        let templates = tokenizer.chat_templates();
        let named = |name: &str| templates.iter().find(|template| template.name == name);
        let own = named("tool_use").filter(|_| tools).or_else(|| named("default")).or(templates.first());
        match own {
            Some(template) => ChatTemplate::new(&template.source),
            None => ChatTemplate::new(DefaultTemplate::of_tokenizer(tokenizer).source()),
        }
    }

    /// The same template with another clock.
    pub fn with_clock(mut self, clock: Clock) -> ChatTemplate {
        self.clock = clock;
        self.sandbox.set_clock(clock);
        self
    }

    /// The source as the model ships it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text of a conversation.
    ///
    /// A template that fails (not one that refuses or meets a limit) gets a second try with what some templates take for granted: an
    /// empty list of tools where there are none, and `functions` and `datetime` of older formats.
    pub fn render(&self, conversation: &Conversation<'_>) -> Result<String, ChatError> {
        sandbox::on_stack(|| {
            let variables = variables(conversation);
            let bytes = variables.iter().map(|(_, value)| sandbox::length(value)).sum();
            self.sandbox.run(variables.clone(), bytes).or_else(|error| match error {
                ChatError::Failed(_) => {
                    let granted = self.granted(conversation, variables);
                    self.sandbox.run(granted, bytes).map_err(|second| match second {
                        ChatError::Refused(_) => second,
                        _ => error,
                    })
                }
                last => Err(last),
            })
        })?
    }

    /// The variables of the second try; those of the first win.
    fn granted(&self, conversation: &Conversation<'_>, own: Vec<(String, Value)>) -> Vec<(String, Value)> {
        let functions = match conversation.tools {
            Some(tools) => serde_json::to_string_pretty(tools).unwrap_or_default(),
            None => String::new(),
        };
        let datetime = sandbox::strftime(self.clock, "%b %d %Y %H:%M:%S").unwrap_or_default();
        let empty = Value::from(Vec::<Value>::new());
        let granted = [("tools", empty), ("functions", functions.into()), ("datetime", datetime.into())]
            .map(|(n, v)| (n.into(), v));
        granted
            .into_iter()
            .chain(own.into_iter().filter(|(name, value)| name != "tools" || !value.is_none()))
            .collect()
    }

    /// The ids of a conversation: rendered, the template's special tokens read, BOS never doubled. Special tokens that
    /// the conversation itself spells stay text: a message cannot end its turn or open another.
    pub fn encode(
        &self,
        conversation: &Conversation<'_>,
        tokenizer: &Tokenizer,
    ) -> Result<Vec<u32>, ChatError> {
        Ok(self.begin(conversation, tokenizer)?.rest()?)
    }

    /// As [`ChatTemplate::encode`], in parts.
    ///
    /// # Errors
    /// As there.
    pub fn begin(
        &self,
        conversation: &Conversation<'_>,
        tokenizer: &Tokenizer,
    ) -> Result<LongText, ChatError> {
        match own_text::Marked::new(conversation, &self.source, tokenizer)? {
            None => Ok(LongText::chat(tokenizer, &self.render(conversation)?, None)?),
            Some(marked) => marked.encode(&self.render(&marked.conversation(conversation))?, tokenizer),
        }
    }

    /// As [`ChatTemplate::begin`], but special tokens are read wherever they stand, as other engines do: never with
    /// text of a stranger.
    pub fn begin_all_special(
        &self,
        conversation: &Conversation<'_>,
        tokenizer: &Tokenizer,
    ) -> Result<LongText, ChatError> {
        Ok(LongText::chat(tokenizer, &self.render(conversation)?, None)?)
    }
}

fn variables(conversation: &Conversation<'_>) -> Vec<(String, Value)> {
    let list = |list: Option<&[serde_json::Value]>| list.map_or(Value::from(()), sandbox::list);
    let mut variables: Vec<(String, Value)> = vec![
        ("messages".into(), sandbox::list(conversation.messages)),
        // Absent lists are None, not undefined: templates ask for either.
        ("tools".into(), list(conversation.tools)),
        ("documents".into(), list(conversation.documents)),
        ("add_generation_prompt".into(), conversation.add_generation_prompt.into()),
    ];
    let tokens = [("bos_token", conversation.bos_token), ("eos_token", conversation.eos_token)];
    variables.extend(tokens.into_iter().filter_map(|(name, text)| Some((name.into(), text?.into()))));
    let extra = conversation.variables.into_iter().flatten();
    variables.extend(extra.map(|(name, value)| (name.clone(), sandbox::value(value))));
    variables
}
