//! Answers of conversations: prompt, format and reasoning settled before, the answer taken apart while it comes.

use crate::{
    Error, Result,
    chat::{ChatOptions, ReasoningMode},
    generate::{Piece, Prompt, TokenStream},
    model::Model,
};
use lamina_text::{
    ChatFormat, Delta, Markers, Parser, ParserOptions, ReasoningMarks, Tokenizer, ToolChoice,
    reasoning_variables,
};
use serde_json::Value;

/// A conversation whose answer can begin.
#[derive(Debug, Clone)]
pub struct PreparedChat {
    /// The prompt.
    pub tokens: Vec<u32>,
    /// How its answers are written.
    pub answer: ChatAnswer,
}

/// How the answers to a conversation are written.
#[derive(Debug, Clone)]
pub struct ChatAnswer {
    /// How calls are written.
    pub format: &'static ChatFormat,
    /// Marks around reasoning, where the template has any.
    pub marks: Option<ReasoningMarks>,
    /// The prompt ends within the reasoning.
    pub inside: bool,
    /// Reasoning stays text.
    pub keeps_reasoning: bool,
    /// What was asked for and cannot be done.
    pub warnings: Vec<String>,
    /// Tools that may be called.
    pub tools: Vec<Value>,
    /// Which of them.
    pub choice: ToolChoice,
    /// One call at most.
    pub one_call: bool,
    /// Whether to reason, and how long.
    pub reasoning: ReasoningMode,
    /// Text before the mark that closes reasoning whose budget is spent.
    pub reasoning_end: String,
    /// Calls in the conversation so far.
    pub earlier_calls: usize,
    pub(crate) tokenizer: Tokenizer,
}

/// Takes one answer apart, piece by piece.
#[derive(Debug)]
pub struct ChatReader {
    parser: Parser,
    tokenizer: Tokenizer,
}

/// Tokens at the end of a prompt in which a mark that opens reasoning is looked for.
const LAST: usize = 16;

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
    /// As for [`Model::apply_chat_template`]; also when the format has no such name.
    pub fn prepare_chat(&self, messages: &[Value], options: &ChatOptions) -> Result<PreparedChat> {
        let source = self.chat_template(options)?.source().to_owned();
        let format = match &options.format {
            Some(name) => ChatFormat::named(name).ok_or_else(|| unknown_format(name))?,
            None => ChatFormat::of_template(&source),
        };
        let mut warnings = Vec::new();
        let shown = shown(options, &source, &mut warnings);
        let tokens = self.chat_tokens(messages, &shown)?;
        let tools = shown.tools.unwrap_or_default();
        if !tools.is_empty() && format.name == "none" {
            warnings.push("the template writes no calls that are known: they stay text".into());
        }
        let calls = |message: &Value| message.get("tool_calls").and_then(Value::as_array).map_or(0, Vec::len);
        let mut answer = ChatAnswer {
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
        answer.begins_after(&tokens);
        Ok(PreparedChat { tokens, answer })
    }

    /// Streams the answers to a conversation, each within the form that was asked for. What cannot be enforced is added
    /// to the warnings.
    ///
    /// # Errors
    /// As for [`Model::stream`]; also when a call is required and cannot be made, or a form cannot be enforced.
    pub fn stream_chat(
        &self,
        chat: &mut PreparedChat,
        options: &crate::GenerateOptions,
    ) -> Result<TokenStream> {
        let mut options = options.clone();
        self.constrain_chat(&mut chat.answer, &mut options)?;
        self.stream(&Prompt::Tokens(chat.tokens.clone()), &options)
    }
}

impl ChatAnswer {
    /// Text in this format, without tools and reasoning.
    pub fn new(format: &'static ChatFormat, tokenizer: Tokenizer) -> ChatAnswer {
        ChatAnswer {
            format,
            marks: None,
            inside: false,
            keeps_reasoning: false,
            warnings: Vec::new(),
            tools: Vec::new(),
            choice: ToolChoice::Auto,
            one_call: false,
            reasoning: ReasoningMode::Template,
            reasoning_end: String::new(),
            earlier_calls: 0,
            tokenizer,
        }
    }

    /// Looks whether an answer to this prompt begins within the reasoning.
    pub fn begins_after(&mut self, prompt: &[u32]) {
        let last = &prompt[prompt.len().saturating_sub(LAST)..];
        let end = self.tokenizer.decode_with(last, Markers::Show).unwrap_or_default();
        self.inside = self.marks.is_some_and(|marks| marks.begins_inside(&end));
    }

    /// Takes an answer apart.
    pub fn reader(&self) -> ChatReader {
        let options = ParserOptions {
            tools: &self.tools,
            reasoning: self.marks.filter(|_| !self.keeps_reasoning),
            inside: self.inside && !self.keeps_reasoning,
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
        let mut out = self.push_text(&piece.text, piece.token);
        if piece.end.is_some() {
            out.extend(self.finish());
        }
        out
    }

    /// What a text adds that came with a token.
    pub fn push_text(&mut self, text: &str, token: Option<u32>) -> Vec<Delta> {
        let mut out = self.parser.push(text);
        // Special tokens have no text in pieces; some are marks of the format.
        if let Some(id) = token.filter(|&id| self.tokenizer.is_special(id)) {
            out.extend(self.parser.push_special(self.tokenizer.id_to_token(id).unwrap_or_default()));
        }
        out
    }

    /// What was held back, at the end of the answer.
    pub fn finish(&mut self) -> Vec<Delta> {
        self.parser.finish()
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
