//! Answers of conversations: prompt, format and reasoning settled before, the answer taken apart while it comes.

use crate::{
    Error, Result,
    chat::{ChatOptions, ReasoningMode},
    generate::Piece,
    model::Model,
};
use lamina_text::{
    ChatFormat, Delta, Parser, ParserOptions, ReasoningMarks, Tokenizer, ToolChoice, reasoning_variables,
};
use serde_json::Value;

/// A conversation whose answer can begin.
#[derive(Debug, Clone)]
pub struct PreparedChat {
    /// The prompt.
    pub tokens: Vec<u32>,
    /// How the answer is written.
    pub format: &'static ChatFormat,
    /// Marks around reasoning, where the template has any.
    pub marks: Option<ReasoningMarks>,
    /// The prompt ends within the reasoning.
    pub inside: bool,
    /// What was asked for and cannot be done.
    pub warnings: Vec<String>,
    /// Tools that may be called.
    tools: Vec<Value>,
    /// Calls in the conversation so far.
    earlier_calls: usize,
    tokenizer: Tokenizer,
}

/// Takes one answer apart, piece by piece.
#[derive(Debug)]
pub struct ChatReader {
    parser: Parser,
    tokenizer: Tokenizer,
}

impl Model {
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
    /// As for [`Model::apply_chat_template`]; also when the format has no such name, or a call is asked for and there
    /// are no tools.
    pub fn prepare_chat(&self, messages: &[Value], options: &ChatOptions) -> Result<PreparedChat> {
        let source = self.chat_template(options)?.source().to_owned();
        let format = match &options.format {
            Some(name) => ChatFormat::named(name).ok_or_else(|| unknown_format(name))?,
            None => ChatFormat::of_template(&source),
        };
        let mut warnings = Vec::new();
        let shown = shown(options, &source, &mut warnings);
        let marks = ReasoningMarks::of_template(&source);
        let prompt = self.apply_chat_template(messages, &shown)?;
        let tools = shown.tools.clone().unwrap_or_default();
        if !tools.is_empty() && format.name == "none" {
            warnings.push("the template writes no calls that are known: they stay text".into());
        }
        let calls = |message: &Value| message.get("tool_calls").and_then(Value::as_array).map_or(0, Vec::len);
        Ok(PreparedChat {
            tokens: self.chat_tokens(messages, &shown)?,
            format,
            marks,
            inside: marks.is_some_and(|marks| marks.begins_inside(&prompt)),
            warnings,
            tools,
            earlier_calls: messages.iter().map(calls).sum(),
            tokenizer: self.need_tokenizer()?.clone(),
        })
    }
}

impl PreparedChat {
    /// Takes an answer apart.
    pub fn reader(&self) -> ChatReader {
        let options = ParserOptions {
            tools: &self.tools,
            reasoning: self.marks,
            inside: self.inside,
            no_calls: self.tools.is_empty(),
            earlier_calls: self.earlier_calls,
            seed: None,
        };
        ChatReader { parser: Parser::new(self.format, &options), tokenizer: self.tokenizer.clone() }
    }
}

impl ChatReader {
    /// What a piece adds. After the last piece of the answer nothing is held back.
    pub fn push(&mut self, piece: &Piece) -> Vec<Delta> {
        let mut out = self.parser.push(&piece.text);
        // Special tokens have no text in pieces; some are marks of the format.
        if let Some(id) = piece.token.filter(|&id| self.tokenizer.is_special(id)) {
            out.extend(self.parser.push_special(self.tokenizer.id_to_token(id).unwrap_or_default()));
        }
        if piece.end.is_some() {
            out.extend(self.parser.finish());
        }
        out
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
    if switches.is_empty() {
        warnings.push(
            "the template cannot be told whether to think: reasoning has no effect on the prompt".into(),
        );
    }
    for (name, value) in switches {
        shown.variables.entry(name).or_insert(value);
    }
    shown
}
