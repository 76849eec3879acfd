//! Events of a request: scored prompt tokens, chosen tokens, ends, failures.

use crate::error::EngineError;
use lamina_sample::SamplerState;
use lamina_speculate::Speculation;
use std::time::Instant;

/// One token of an answer, or the end of one.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Logprobs of prompt tokens, where they were asked for; sent once for all answers, in order.
    Prompt {
        /// Place in the prompt of the first token that is reported; the first token of all has no logprob.
        start: usize,
        /// How likely the tokens from there on were.
        tokens: Vec<Scored>,
    },
    /// Rows of the prompt were computed, where that is to be told.
    Progress {
        /// Tokens of the prompt.
        prompt: usize,
        /// Of these, found in the cache.
        cached: usize,
        /// Of these, computed or found so far.
        computed: usize,
    },
    /// A token was chosen.
    Token(Token),
    /// An answer or a pass has ended.
    Finished {
        /// Which of the `n` answers.
        index: usize,
        /// Text that was held back, without the stop string.
        text: String,
        /// Why it ended.
        reason: FinishReason,
        /// Whether its text satisfies the request's grammar; if not, it is a beginning of one that does. None without a
        /// grammar.
        complete: Option<bool>,
        /// Where the sampler stands, for a request that goes on from here; none for a pass.
        sampler: Option<SamplerState>,
        /// Where its time went.
        timings: Timings,
    },
    /// The request failed; nothing follows.
    Failed(EngineError),
}

/// How likely a given token was.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// Its id.
    pub id: u32,
    /// Natural logarithm of its probability.
    pub logprob: f32,
    /// The most likely tokens of its place and their logprobs, most likely first.
    pub top: Vec<(u32, f32)>,
}

/// A chosen token.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    /// Which of the `n` answers.
    pub index: usize,
    /// Its id.
    pub id: u32,
    /// Text that became whole with it; empty without a tokenizer.
    pub text: String,
    /// The grammar left no other: it was taken without sampling.
    pub forced: bool,
    /// Natural logarithm of the model's probability, where it was asked for.
    pub logprob: Option<f32>,
    /// Most likely tokens and their logprobs, where they were asked for.
    pub top: Vec<(u32, f32)>,
    /// Where the sampler stands behind it, for a request that goes on from here; none in a search by beams.
    pub sampler: Option<SamplerState>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// A token or string that ends answers.
    Stop {
        /// Which one.
        by: StopBy,
    },
    /// A limit was reached.
    Length {
        /// Which one.
        by: LengthBy,
    },
    /// The caller gave up.
    Cancelled,
}

/// What stopped an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopBy {
    /// This end token was chosen; it is not part of the answer.
    End(u32),
    /// The text reached the stop string with this place in the request's list.
    Text(usize),
    /// The grammar is complete: nothing may follow.
    Grammar,
}

/// The limit that ended an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthBy {
    /// As many tokens as were asked for; also the end of a pass over given tokens.
    MaxTokens,
    /// The context is full.
    Context,
    /// The request's time was over.
    Deadline,
}

impl FinishReason {
    /// Name in outputs: `stop`, `length` or `cancelled`.
    pub fn name(self) -> &'static str {
        match self {
            FinishReason::Stop { .. } => "stop",
            FinishReason::Length { .. } => "length",
            FinishReason::Cancelled => "cancelled",
        }
    }
}

impl LengthBy {
    /// Name in outputs: `max_tokens`, `context` or `deadline`.
    pub fn name(self) -> &'static str {
        match self {
            LengthBy::MaxTokens => "max_tokens",
            LengthBy::Context => "context",
            LengthBy::Deadline => "deadline",
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
    /// Of these, tokens that were read from disk.
    pub disk_tokens: usize,
    /// Chosen tokens.
    pub tokens: usize,
    /// Seconds from the arrival to the first step.
    pub queue_seconds: f64,
    /// Seconds from the first step to the first token.
    pub prefill_seconds: f64,
    /// Seconds from the first token to the last.
    pub decode_seconds: f64,
    /// How often the sequence lost its memory to others and was computed again.
    pub preemptions: u32,
    /// Seconds for which it had no memory in between.
    pub preempted_seconds: f64,
    /// How often the context was full and its older half left.
    pub context_shifts: u32,
    /// What drafts did.
    pub speculation: Speculation,
    /// Its part of the machine's time in seconds: a step's time is divided among its rows.
    pub machine_seconds: f64,
    /// Seconds that its steps waited for weights that are read from disk.
    pub io_wait_seconds: f64,
    /// When things happened.
    pub times: Times,
}

/// Moments of a request; none for what never happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// The engine took it in.
    pub arrival: Option<Instant>,
    /// Its first rows were computed.
    pub first_step: Option<Instant>,
    /// Its first token was chosen.
    pub first_token: Option<Instant>,
    /// Its last token was chosen; an end token counts.
    pub last_token: Option<Instant>,
}

impl Times {
    /// Seconds until the first step, from there to the first token, and from there to the last; up to `now` where it is
    /// still waited for one.
    pub(crate) fn seconds(&self, now: Instant) -> [f64; 3] {
        let Times { arrival, first_step, first_token, last_token } = *self;
        let between = |a: Option<Instant>, b: Option<Instant>| match (a, b) {
            (Some(a), Some(b)) => b.saturating_duration_since(a).as_secs_f64(),
            _ => 0.0,
        };
        let now = Some(now);
        [
            between(arrival, first_step.or(now)),
            between(first_step, first_token.or(now)),
            between(first_token, last_token),
        ]
    }
}
