//! Chat templates: the Jinja source that a model ships, rendered as `transformers` renders it.
//!
//! `transformers` runs jinja2 (immutable sandbox, `trim_blocks`, `lstrip_blocks`, loop controls) with a few helpers
//! of its own. minijinja is the same language; the helpers and the places where Python shows through are here.
//!
//! A template is a program that came with a model, so it runs within limits ([`meter`]): on a stack of its own
//! ([`stack`]), its source bounded before it is parsed ([`program`]), its operators ([`operators`]), filters and
//! methods ([`builtins`]) bounded by arithmetic before they allocate.

mod builtins;
mod constrain;
mod defaults;
mod formats;
mod generation;
mod json;
mod meter;
mod namespace;
mod operators;
mod own_text;
mod parse;
mod program;
mod python;
mod reasoning;
mod size;
mod stack;

use std::fmt;

use chrono::{DateTime, Local, NaiveDateTime};
use minijinja::syntax::SyntaxConfig;
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value, machinery,
};
use serde_json::Map;

pub use constrain::{
    MarkPiece, MarkTokens, ToolChoice, ToolGrammar, ToolRules, has_channels, mark_pieces, structure_tokens,
    tool_grammar,
};
pub use defaults::DefaultTemplate;
pub use formats::ChatFormat;
pub use parse::{ChatMessage, Delta, Parser, ParserOptions, ToolCall};
pub use reasoning::{ReasoningMarks, reasoning_variables};

use crate::error::TextError;
use crate::tokenizer::Tokenizer;

const OUT_OF_FUEL: &str = "it took more steps than any conversation needs: it seems to loop without end";
const NAME: &str = "chat";

/// A chat template whose source compiles. Shared freely between threads.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    syntax: SyntaxConfig,
    source: String,
    /// The source as the engine takes it.
    rewritten: String,
    clock: Clock,
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
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_recursion_limit(meter::FRAMES);
        environment.set_formatter(emit);
        builtins::add_to(&mut environment);
        operators::add_to(&mut environment);
        python::add_to(&mut environment);
        environment.add_filter("tojson", json::tojson);
        environment.add_function("raise_exception", raise_exception);
        let (source, rewritten) = (source.to_owned(), generation::rewrite(source));
        let template =
            ChatTemplate { environment, syntax: syntax()?, source, rewritten, clock: Clock::System }
                .with_clock(Clock::System);
        stack::run(|| program::compile(NAME, &template.rewritten, &template.syntax).map(|_| ()))?
            .map_err(|e| unreadable(&e))?;
        Ok(template)
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
        self.clock = clock;
        self.environment.add_function("strftime_now", move |format: &str| strftime(clock, format));
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
    pub fn render(&self, conversation: &Conversation<'_>) -> Result<String, TextError> {
        stack::run(|| {
            let variables = variables(conversation);
            let bytes = variables.iter().map(|(_, value)| size::length(value)).sum();
            self.run(variables.clone(), bytes).or_else(|error| match error {
                TextError::TemplateFailed(_) => {
                    let granted = self.granted(conversation, variables);
                    self.run(granted, bytes).map_err(|second| match second {
                        TextError::TemplateRefused(_) => second,
                        _ => error,
                    })
                }
                last => Err(last),
            })
        })?
    }

    fn run(&self, variables: Vec<(String, Value)>, bytes: usize) -> Result<String, TextError> {
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(meter::instructions(bytes)));
        let program = program::compile(NAME, &self.rewritten, &self.syntax).map_err(|e| unreadable(&e))?;
        meter::metered(bytes, || {
            let mut text = String::new();
            let mut output = machinery::make_string_output(&mut text);
            let root = Value::from_pairs(variables);
            let escape = AutoEscape::None;
            machinery::eval(&environment, &program.main, root, &program.blocks, &mut output, escape)
                .map(|_| ())
                .map_err(|e| failure(&e))?;
            Ok(text)
        })
    }

    /// The variables of the second try; those of the first win.
    fn granted(&self, conversation: &Conversation<'_>, own: Vec<(String, Value)>) -> Vec<(String, Value)> {
        let functions = match conversation.tools {
            Some(tools) => serde_json::to_string_pretty(tools).unwrap_or_default(),
            None => String::new(),
        };
        let datetime = strftime(self.clock, "%b %d %Y %H:%M:%S").unwrap_or_default();
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
    ) -> Result<Vec<u32>, TextError> {
        match own_text::Marked::new(conversation, &self.source, tokenizer)? {
            None => tokenizer.encode_chat(&self.render(conversation)?),
            Some(marked) => {
                let rendered = self.render(&marked.conversation(conversation))?;
                // JSON in ASCII writes the mark as an escape.
                let escaped = format!("\\u{:04x}", u32::from(marked.mark));
                tokenizer.encode_rendered(&rendered.replace(&escaped, ""), Some(marked.mark))
            }
        }
    }

    /// As [`ChatTemplate::encode`], but special tokens are read wherever they stand, as other engines do: never with
    /// text of a stranger.
    pub fn encode_all_special(
        &self,
        conversation: &Conversation<'_>,
        tokenizer: &Tokenizer,
    ) -> Result<Vec<u32>, TextError> {
        tokenizer.encode_chat(&self.render(conversation)?)
    }
}

fn syntax() -> Result<SyntaxConfig, TextError> {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    syntax.map_err(|e| TextError::TemplateSyntax(describe(&e)))
}

fn variables(conversation: &Conversation<'_>) -> Vec<(String, Value)> {
    let list = |list: Option<&[serde_json::Value]>| list.map_or(Value::from(()), python::list);
    let mut variables: Vec<(String, Value)> = vec![
        ("messages".into(), python::list(conversation.messages)),
        // Absent lists are None, not undefined: templates ask for either.
        ("tools".into(), list(conversation.tools)),
        ("documents".into(), list(conversation.documents)),
        ("add_generation_prompt".into(), conversation.add_generation_prompt.into()),
    ];
    let tokens = [("bos_token", conversation.bos_token), ("eos_token", conversation.eos_token)];
    variables.extend(tokens.into_iter().filter_map(|(name, text)| Some((name.into(), text?.into()))));
    let extra = conversation.variables.into_iter().flatten();
    variables.extend(extra.map(|(name, value)| (name.clone(), python::value(value))));
    variables
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Refusal(message)))
}

/// Writes a value, after its cost was taken.
fn emit(output: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let bytes = match value.as_str() {
        Some(text) => text.len(),
        None => size::measure(value)?.printed(),
    };
    let growth = if matches!(state.auto_escape(), AutoEscape::None) { 1 } else { 6 };
    meter::memory(bytes.saturating_mul(growth))?;
    minijinja::escape_formatter(output, state, value)
}

/// The first cause of this type.
fn cause<T: std::error::Error + 'static>(error: &Error) -> Option<&T> {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(cause) = source {
        if let Some(found) = cause.downcast_ref::<T>() {
            return Some(found);
        }
        source = cause.source();
    }
    None
}

fn unreadable(error: &Error) -> TextError {
    match cause::<meter::Exceeded>(error) {
        Some(exceeded) => TextError::TemplateLimit(exceeded.0.clone()),
        None => TextError::TemplateSyntax(describe(error)),
    }
}

fn failure(error: &Error) -> TextError {
    if let Some(refusal) = cause::<Refusal>(error) {
        return TextError::TemplateRefused(refusal.0.clone());
    }
    if let Some(exceeded) = cause::<meter::Exceeded>(error) {
        return TextError::TemplateLimit(exceeded.0.clone());
    }
    match error.kind() {
        ErrorKind::OutOfFuel => TextError::TemplateLimit(OUT_OF_FUEL.into()),
        _ => TextError::TemplateFailed(describe(error)),
    }
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
    fmt::Write::write_fmt(&mut out, format_args!("{}", now.format(format))).map_err(|_| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now: unknown format {format:?}"))
    })?;
    Ok(out)
}
