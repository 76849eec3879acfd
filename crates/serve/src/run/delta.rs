//! What an answer consists of while it grows, in nobody's dialect.

use super::prompt::MediaTokens;
use lamina::{Scored, Timings};

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerDelta {
    /// Which of the answers: those to prompt `p` are `p * n` to `p * n + n - 1`.
    pub choice: usize,
    /// What it brings.
    pub part: DeltaPart,
    /// The tokens that it came with. Those without text of their own come with the next part, at last with the end.
    pub tokens: Vec<ChosenToken>,
}

/// What a piece brings.
#[derive(Debug, Clone, PartialEq)]
pub enum DeltaPart {
    /// How likely the prompt's tokens were, where that was asked for; before the answer's first token.
    Prompt {
        /// Place in the prompt of the first token that is reported.
        start: usize,
        /// The tokens from there on.
        scored: Vec<Scored>,
    },
    /// How much of the prompt is computed, where that was asked for.
    Progress {
        /// Tokens of the prompt.
        total: usize,
        /// Of these, found in the cache.
        cached: usize,
        /// Of these, computed or found so far.
        computed: usize,
    },
    /// Reasoning before the answer; never empty.
    Reasoning(String),
    /// Text of the answer: whole characters, never none.
    Text(String),
    /// A tool call begins.
    ToolStart {
        /// Which of the answer's calls.
        call: usize,
        /// Its id.
        id: String,
        /// The tool.
        name: String,
    },
    /// A piece of a call's arguments, which are JSON as a whole.
    ToolArguments {
        /// Which of the answer's calls.
        call: usize,
        /// JSON text.
        json: String,
    },
    /// The answer has ended.
    End(Box<ChoiceEnd>),
}

/// A token that was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenToken {
    /// Its id.
    pub id: u32,
    /// Natural logarithm of its probability, where that was asked for.
    pub logprob: Option<f32>,
    /// The most likely tokens of its place with their logprobs, where they were asked for.
    pub top: Vec<(u32, f32)>,
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceEnd {
    /// Why.
    pub why: Ended,
    /// Its tokens; those of the prompt are the same in all answers to it.
    pub usage: TokenUsage,
    /// Where its time went.
    pub timings: Timings,
    /// Seconds in which the pictures and sounds of its prompt were encoded, before all of that.
    pub encode_seconds: f64,
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// A token that ends answers.
    Token(u32),
    /// This stop string.
    Text(String),
    /// It calls tools.
    ToolCalls,
    /// As many tokens as were asked for.
    MaxTokens,
    /// The context is full.
    Context,
    /// Its time was over, and the request wants what there is.
    Deadline,
    /// The reader gave up.
    Cancelled,
}

/// Tokens of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenUsage {
    /// Of the prompt.
    pub prompt: usize,
    /// Of these, found in the cache.
    pub cached: usize,
    /// Of these, in the places of pictures and sounds.
    pub media: MediaTokens,
    /// Of the answer, the one that ended it too.
    pub completion: usize,
    /// Of these, reasoning.
    pub reasoning: usize,
}

impl TokenUsage {
    /// Prompt and answer.
    pub fn total(&self) -> usize {
        self.prompt + self.completion
    }
}
