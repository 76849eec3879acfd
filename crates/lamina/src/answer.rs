//! Answers of conversations: prompt, format and reasoning settled before, the answer taken apart while it comes.

use crate::{chat_options::ReasoningMode, generate::Piece};
use lamina_chat::{ChatFormat, Delta, Parser, ParserOptions, ReasoningMarks, ToolChoice};
use lamina_image::Picture;
use lamina_sound::Sound;
use lamina_tokenize::{Markers, Tokenizer};
use serde_json::Value;
use std::sync::Arc;

/// A conversation whose answer can begin.
#[derive(Debug, Clone)]
pub struct PreparedChat {
    /// The prompt.
    pub tokens: Vec<u32>,
    /// Its pictures, for [`GenerateOptions::images`](crate::GenerateOptions::images).
    pub images: Vec<Arc<Picture>>,
    /// Its sounds, for [`GenerateOptions::sounds`](crate::GenerateOptions::sounds).
    pub sounds: Vec<Arc<Sound>>,
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

    /// Why the calls that the choice of tools requires cannot be made, and which option is to blame; none where they can,
    /// or none is required.
    pub fn refused_choice(&self) -> Option<(&'static str, String)> {
        let name = |tool: &Value| {
            let function = tool.get("function").filter(|f| f.is_object()).unwrap_or(tool);
            function.get("name").and_then(Value::as_str).map(str::to_owned)
        };
        let named = match &self.choice {
            ToolChoice::Auto | ToolChoice::None => return None,
            ToolChoice::Required => None,
            ToolChoice::Named(named) => Some(named),
        };
        if self.format.name == "none" {
            let why = "a call is required, but the model's template writes none: leave tool_choice at auto";
            return Some(("tool_choice", why.into()));
        }
        match named {
            Some(named) if !self.tools.iter().any(|tool| name(tool).as_ref() == Some(named)) => {
                Some(("tool_choice", format!("tool_choice names {named}, which is not among the tools")))
            }
            None if self.tools.is_empty() => {
                Some(("tools", "a call is required, but there are no tools".into()))
            }
            _ => None,
        }
    }

    /// Takes an answer apart.
    pub fn reader(&self) -> ChatReader {
        self.reader_with(None)
    }

    /// As [`ChatAnswer::reader`]; the same `seed` gives the same ids of calls.
    pub fn reader_with(&self, seed: Option<u64>) -> ChatReader {
        let options = ParserOptions {
            tools: &self.tools,
            reasoning: self.marks.filter(|_| !self.keeps_reasoning),
            inside: self.inside && !self.keeps_reasoning,
            no_calls: self.tools.is_empty(),
            earlier_calls: self.earlier_calls,
            seed,
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
