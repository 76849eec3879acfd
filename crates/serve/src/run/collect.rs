//! A whole answer out of its pieces.

use super::delta::{AnswerDelta, ChoiceEnd, ChosenToken, DeltaPart, TokenUsage};
use lamina::Scored;
use std::ops::Range;

/// All answers to a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WholeAnswer {
    /// The answers.
    pub choices: Vec<WholeChoice>,
    /// Their tokens together; each prompt counts once.
    pub usage: TokenUsage,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WholeChoice {
    /// Its text.
    pub text: String,
    /// Reasoning before it.
    pub reasoning: String,
    /// Tools that it calls.
    pub calls: Vec<ToolUse>,
    /// Its tokens.
    pub tokens: Vec<ChosenToken>,
    /// What it consists of, in the order in which it came.
    pub blocks: Vec<AnswerBlock>,
    /// Logprobs of the prompt's tokens from this place on.
    pub prompt_start: usize,
    /// How likely the prompt's tokens were, where that was asked for.
    pub prompt: Vec<Scored>,
    /// How it ended.
    pub end: Option<ChoiceEnd>,
}

/// A stretch of an answer: reasoning, text or a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerBlock {
    /// What it is.
    pub kind: BlockKind,
    /// Its bytes in the reasoning or the text.
    pub text: Range<usize>,
    /// Its tokens.
    pub tokens: Range<usize>,
}

/// Kinds of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// Reasoning.
    Reasoning,
    /// Text of the answer.
    Text,
    /// The call of this number.
    Call(usize),
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolUse {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// JSON text.
    pub arguments: String,
}

impl WholeAnswer {
    /// `choices` answers that have not begun.
    pub fn new(choices: usize) -> WholeAnswer {
        WholeAnswer { choices: vec![WholeChoice::default(); choices], usage: TokenUsage::default() }
    }

    /// Takes a piece.
    pub fn push(&mut self, delta: AnswerDelta) {
        if let Some(choice) = self.choices.get_mut(delta.choice) {
            choice.push(delta);
        }
    }
}

impl WholeChoice {
    fn push(&mut self, delta: AnswerDelta) {
        let first = self.tokens.len();
        self.tokens.extend(delta.tokens);
        match delta.part {
            DeltaPart::Prompt { start, scored } => {
                if self.prompt.is_empty() {
                    self.prompt_start = start;
                }
                self.prompt.extend(scored);
            }
            DeltaPart::Progress { .. } => {}
            DeltaPart::Reasoning(text) => {
                let from = self.reasoning.len();
                self.reasoning.push_str(&text);
                self.block(BlockKind::Reasoning, from..self.reasoning.len(), first);
            }
            DeltaPart::Text(text) => {
                let from = self.text.len();
                self.text.push_str(&text);
                self.block(BlockKind::Text, from..self.text.len(), first);
            }
            DeltaPart::ToolStart { id, name, .. } => {
                self.calls.push(ToolUse { id, name, arguments: String::new() });
                self.block(BlockKind::Call(self.calls.len() - 1), 0..0, first);
            }
            DeltaPart::ToolArguments { call, json } => {
                if let Some(call) = self.calls.get_mut(call) {
                    call.arguments.push_str(&json);
                }
                self.block(BlockKind::Call(call), 0..0, first);
            }
            DeltaPart::End(end) => self.end = Some(*end),
        }
    }

    /// Goes on with the last block, or begins one; its new tokens are those from `first` on.
    fn block(&mut self, kind: BlockKind, text: Range<usize>, first: usize) {
        let tokens = first..self.tokens.len();
        match self.blocks.last_mut().filter(|last| last.kind == kind) {
            Some(last) => (last.text.end, last.tokens.end) = (text.end, tokens.end),
            None => self.blocks.push(AnswerBlock { kind, text, tokens }),
        }
    }

    /// The text of a block of reasoning or text.
    pub fn text_of(&self, block: &AnswerBlock) -> &str {
        let from = if block.kind == BlockKind::Reasoning { &self.reasoning } else { &self.text };
        from.get(block.text.clone()).unwrap_or_default()
    }

    /// The tokens of a block.
    pub fn tokens_of(&self, block: &AnswerBlock) -> &[ChosenToken] {
        self.tokens.get(block.tokens.clone()).unwrap_or_default()
    }
}
