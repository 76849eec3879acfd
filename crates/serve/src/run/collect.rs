//! A whole answer out of its pieces.

use super::delta::{AnswerDelta, ChoiceEnd, ChosenToken, DeltaPart, TokenUsage};
use lamina::Scored;

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
    /// Logprobs of the prompt's tokens from this place on.
    pub prompt_start: usize,
    /// How likely the prompt's tokens were, where that was asked for.
    pub prompt: Vec<Scored>,
    /// How it ended.
    pub end: Option<ChoiceEnd>,
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
        let Some(choice) = self.choices.get_mut(delta.choice) else { return };
        choice.tokens.extend(delta.tokens);
        match delta.part {
            DeltaPart::Prompt { start, scored } => {
                if choice.prompt.is_empty() {
                    choice.prompt_start = start;
                }
                choice.prompt.extend(scored);
            }
            DeltaPart::Progress { .. } => {}
            DeltaPart::Reasoning(text) => choice.reasoning.push_str(&text),
            DeltaPart::Text(text) => choice.text.push_str(&text),
            DeltaPart::ToolStart { id, name, .. } => {
                choice.calls.push(ToolUse { id, name, arguments: String::new() });
            }
            DeltaPart::ToolArguments { call, json } => {
                if let Some(call) = choice.calls.get_mut(call) {
                    call.arguments.push_str(&json);
                }
            }
            DeltaPart::End(end) => choice.end = Some(end),
        }
    }
}
