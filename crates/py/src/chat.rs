//! `_lamina.ChatParser`: answers taken apart, also without a model.

use crate::error::{Result, invalid};
use lamina::{ChatFormat, ChatOptions, Delta, Parser, ParserOptions, ReasoningMode, ToolChoice};
use pyo3::prelude::*;
use serde_json::{Map, Value};
use std::sync::{Mutex, PoisonError};

/// Content, reasoning, and of a call: index, id, name, arguments, whether it is complete.
pub type DeltaRow = (
    Option<String>,
    Option<String>,
    Option<usize>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<bool>,
);

/// A delta as a row.
pub fn delta_row(delta: Delta) -> DeltaRow {
    match delta {
        Delta::Content(text) => (Some(text), None, None, None, None, None, None),
        Delta::Reasoning(text) => (None, Some(text), None, None, None, None, None),
        Delta::ToolStart { index, id, name } => (None, None, Some(index), Some(id), Some(name), None, None),
        Delta::ToolArguments { index, text } => (None, None, Some(index), None, None, Some(text), None),
        Delta::ToolEnd { index, complete } => (None, None, Some(index), None, None, None, Some(complete)),
    }
}

/// Takes an answer apart as it comes.
#[pyclass(frozen, module = "lamina._lamina")]
pub struct ChatParser(Mutex<Parser>);

#[pymethods]
impl ChatParser {
    #[new]
    fn new(format: &str, tools: Option<&str>, thinking: bool) -> Result<ChatParser> {
        let Some(format) = ChatFormat::named(format) else {
            let names: Vec<&str> = ChatFormat::all().iter().map(|format| format.name).collect();
            return Err(invalid(format!(
                "there is no chat format {format:?}: take one of {}",
                names.join(", ")
            )));
        };
        let read = |text: &str| {
            serde_json::from_str(text).map_err(|e| invalid(format!("tools cannot be read: {e}")))
        };
        let tools: Vec<Value> = tools.map(read).transpose()?.unwrap_or_default();
        let options = ParserOptions {
            tools: &tools,
            reasoning: Some(format.reasoning),
            inside: thinking,
            ..ParserOptions::default()
        };
        Ok(ChatParser(Mutex::new(Parser::new(format, &options))))
    }

    fn push(&self, text: &str) -> Vec<DeltaRow> {
        let mut parser = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parser.push(text).into_iter().map(delta_row).collect()
    }

    fn finish(&self) -> Vec<DeltaRow> {
        let mut parser = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parser.finish().into_iter().map(delta_row).collect()
    }
}

/// Names of the formats, and the models that write them.
#[pyfunction]
pub fn chat_formats() -> Vec<(&'static str, &'static str)> {
    ChatFormat::all().iter().map(|format| (format.name, format.models)).collect()
}

/// Name of the format that a template writes.
#[pyfunction]
pub fn chat_format_of(template: &str) -> &'static str {
    ChatFormat::of_template(template).name
}

/// How an answer is to be written. Python has checked it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct AnswerArgs {
    /// `auto`, `none`, `required`, or `name:` and a tool's name.
    choice: String,
    /// At most one tool is called.
    one_call: bool,
    /// None as the template has it, a number as a budget, -1 without a limit, -2 not at all.
    reasoning: Option<i64>,
    /// Text before the mark that closes reasoning whose budget is spent.
    reasoning_end: String,
    /// A name of [`chat_formats`].
    format: Option<String>,
}

impl AnswerArgs {
    /// Sets these options.
    pub fn apply(self, chat: &mut ChatOptions) {
        chat.tool_choice = match self.choice.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            name => ToolChoice::Named(name.strip_prefix("name:").unwrap_or(name).to_owned()),
        };
        chat.reasoning = match self.reasoning.map(usize::try_from) {
            None => ReasoningMode::Template,
            Some(Ok(budget)) => ReasoningMode::Budget(budget),
            Some(Err(_)) if self.reasoning == Some(-1) => ReasoningMode::On,
            Some(Err(_)) => ReasoningMode::Off,
        };
        (chat.one_call, chat.reasoning_end, chat.format) = (self.one_call, self.reasoning_end, self.format);
    }
}

/// Messages and options of a conversation, which come as JSON.
pub fn chat_options(
    messages: &str,
    template: Option<String>,
    tools: Option<&str>,
    variables: &str,
    add_generation_prompt: bool,
) -> Result<(Vec<Value>, ChatOptions)> {
    let list = |name: &str, text: &str| -> Result<Vec<Value>> {
        serde_json::from_str(text).map_err(|e| invalid(format!("{name} cannot be read: {e}")))
    };
    let variables: Map<String, Value> = serde_json::from_str(variables)
        .map_err(|e| invalid(format!("template variables cannot be read: {e}")))?;
    let tools = tools.map(|t| list("tools", t)).transpose()?;
    let no_generation_prompt = !add_generation_prompt;
    let chat = ChatOptions { tools, no_generation_prompt, template, variables, ..ChatOptions::default() };
    Ok((list("messages", messages)?, chat))
}
