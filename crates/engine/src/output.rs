//! What a request sends back while it runs.

use crate::error::EngineError;

/// One token of an answer, or the end of one.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A token was chosen.
    Token(Token),
    /// An answer has ended.
    Finished {
        /// Which of the `n` samples.
        index: usize,
        /// Text that was held back, without the stop string.
        text: String,
        /// Why.
        reason: FinishReason,
        /// How long it took.
        timings: Timings,
    },
    /// The request failed; nothing follows.
    Failed(EngineError),
}

/// A chosen token.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    /// Which of the `n` samples.
    pub index: usize,
    /// Its id.
    pub id: u32,
    /// Text that became whole with it; empty without a tokenizer.
    pub text: String,
    /// Natural logarithm of the model's probability, where it was asked for.
    pub logprob: Option<f32>,
    /// Most likely tokens and their logprobs, where they were asked for.
    pub top: Vec<(u32, f32)>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// A token or string that ends answers.
    Stop,
    /// `max_tokens`, or the end of the context.
    Length,
    /// The caller gave up.
    Cancelled,
}

impl FinishReason {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::Cancelled => "cancelled",
        }
    }
}

/// Where the time of a request went.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Timings {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of these, tokens whose keys and values were found in the cache.
    pub cached_tokens: usize,
    /// Chosen tokens.
    pub tokens: usize,
    /// Seconds from the first step to the first token.
    pub prefill_seconds: f64,
    /// Seconds from the first token to the last.
    pub decode_seconds: f64,
}
