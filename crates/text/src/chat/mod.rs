//! Chat templates: the Jinja source that a model ships, rendered as `transformers` renders it.
//!
//! `transformers` runs jinja2 (immutable sandbox, `trim_blocks`, `lstrip_blocks`, loop controls) with a few helpers
//! of its own. minijinja is the same language; the helpers and the places where Python shows through are here.

mod defaults;
mod generation;
mod json;
mod python;

use std::fmt;

use chrono::{DateTime, Local, NaiveDateTime};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value, context};
use serde_json::Map;

pub use defaults::DefaultTemplate;

use crate::error::TextError;
use crate::tokenizer::Tokenizer;

/// Steps of the template engine that one rendering may take: enough for tens of thousands of messages, and an end
/// for a template that loops on purpose.
const FUEL: u64 = 200_000_000;

const NAME: &str = "chat";

/// A compiled chat template. Shared freely between threads.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
}

/// What a template is rendered with.
#[derive(Clone, Debug, Default)]
pub struct Conversation<'a> {
    /// Objects with `role`, `content` (a string or a list of parts), `tool_calls` and what else the model knows.
    pub messages: &'a [serde_json::Value],
    /// Tools as JSON schemas, if the model may call any.
    pub tools: Option<&'a [serde_json::Value]>,
    /// Documents to answer from (`title`, `text`), for models that take them.
    pub documents: Option<&'a [serde_json::Value]>,
    /// Whether the text ends where the assistant's answer begins.
    pub add_generation_prompt: bool,
    /// The text of the BOS token; None leaves `bos_token` undefined.
    pub bos_token: Option<&'a str>,
    /// The text of the EOS token; None leaves `eos_token` undefined.
    pub eos_token: Option<&'a str>,
    /// Further variables (`enable_thinking` and the like); they win over all above.
    pub variables: Option<&'a Map<String, serde_json::Value>>,
}

impl<'a> Conversation<'a> {
    /// The messages, an answer to come, and the tokens of this tokenizer.
    pub fn new(messages: &'a [serde_json::Value], tokenizer: &'a Tokenizer) -> Conversation<'a> {
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.id_to_token(id));
        Conversation {
            messages,
            add_generation_prompt: true,
            bos_token: text(tokenizer.bos()),
            eos_token: text(tokenizer.eos()),
            ..Conversation::default()
        }
    }
}

/// Where a template's `strftime_now` takes the time from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The system's, in local time.
    #[default]
    System,
    /// A fixed local time, in seconds since 1970-01-01 00:00: for tests and reproducible prompts.
    Fixed(i64),
}

/// A refusal by the template itself, told apart from its failures.
#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

impl ChatTemplate {
    /// Compiles a template.
    pub fn new(source: &str) -> Result<ChatTemplate, TextError> {
        let mut environment = Environment::new();
        environment.set_syntax(syntax()?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        minijinja_contrib::add_to_environment(&mut environment);
        python::add_to(&mut environment);
        environment.add_filter("tojson", json::tojson);
        environment.add_function("raise_exception", raise_exception);
        let template = ChatTemplate { environment, source: source.to_owned() }.with_clock(Clock::System);
        template.compile()
    }

    fn compile(mut self) -> Result<ChatTemplate, TextError> {
        let source = generation::rewrite(&self.source);
        self.environment
            .add_template_owned(NAME, source)
            .map_err(|e| TextError::TemplateSyntax(describe(&e)))?;
        Ok(self)
    }

    /// The template for a model: its own (`tool_use` when tools are given and there is one), else a default that
    /// its vocabulary suggests.
    pub fn of_tokenizer(tokenizer: &Tokenizer, tools: bool) -> Result<ChatTemplate, TextError> {
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
        self.environment.add_function("strftime_now", move |format: &str| strftime(clock, format));
        self
    }

    /// The source as the model ships it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text of a conversation.
    pub fn render(&self, conversation: &Conversation<'_>) -> Result<String, TextError> {
        let template = self.environment.get_template(NAME).map_err(|e| failure(&e))?;
        template.render(variables(conversation)).map_err(|e| failure(&e))
    }

    /// The ids of a conversation: rendered, special tokens read, BOS never doubled.
    pub fn encode(&self, conversation: &Conversation<'_>, tokenizer: &Tokenizer) -> Result<Vec<u32>, TextError> {
        tokenizer.encode_chat(&self.render(conversation)?)
    }
}

fn syntax() -> Result<SyntaxConfig, TextError> {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    syntax.map_err(|e| TextError::TemplateSyntax(describe(&e)))
}

/// A JSON value (or a list of them, or none) as the template sees it.
fn value(of: impl serde::Serialize) -> Value {
    Value::from(Serde(of))
}

fn variables(conversation: &Conversation<'_>) -> Value {
    let mut variables: Vec<(String, Value)> = vec![
        ("messages".into(), value(conversation.messages)),
        // Absent lists are None, not undefined: templates ask for either.
        ("tools".into(), value(conversation.tools)),
        ("documents".into(), value(conversation.documents)),
        ("add_generation_prompt".into(), conversation.add_generation_prompt.into()),
    ];
    let tokens = [("bos_token", conversation.bos_token), ("eos_token", conversation.eos_token)];
    variables.extend(tokens.into_iter().filter_map(|(name, text)| Some((name.into(), text?.into()))));
    let extra = conversation.variables.into_iter().flatten();
    variables.extend(extra.map(|(name, of)| (name.clone(), value(of))));
    let own: Value = variables.into_iter().collect();
    context! { ..own }
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Refusal(message)))
}

fn failure(error: &Error) -> TextError {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(cause) = source {
        if let Some(refusal) = cause.downcast_ref::<Refusal>() {
            return TextError::TemplateRefused(refusal.0.clone());
        }
        source = cause.source();
    }
    TextError::TemplateFailed(describe(error))
}

/// One line: what, and where in the template.
fn describe(error: &Error) -> String {
    match (error.detail(), error.line()) {
        (Some(detail), Some(line)) => format!("{}: {detail} (line {line})", error.kind()),
        (None, Some(line)) => format!("{} (line {line})", error.kind()),
        _ => error.to_string(),
    }
}

fn strftime(clock: Clock, format: &str) -> Result<String, Error> {
    let now: NaiveDateTime = match clock {
        Clock::System => Local::now().naive_local(),
        Clock::Fixed(seconds) => DateTime::from_timestamp(seconds, 0).unwrap_or_default().naive_utc(),
    };
    let mut out = String::new();
    fmt::Write::write_fmt(&mut out, format_args!("{}", now.format(format)))
        .map_err(|_| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: unknown format {format:?}")))?;
    Ok(out)
}
