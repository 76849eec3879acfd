//! Requests for text and their answers.

use crate::{beam_options::BeamOptions, media_use::MediaUsed};
use lamina_engine::{
    Boundary, Compression, FinishReason, LengthBy, Scored, Speculate, Terms, Timings,
    sample::{Processor, SamplerState, SamplingParams},
};
use lamina_grammar::Grammar;
use lamina_image::Picture;
use lamina_sound::Sound;
use std::sync::Arc;

/// What to continue.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// Text; the model's beginning token is added, special tokens in it are plain text.
    Text(String),
    /// Tokens as they are.
    Tokens(Vec<u32>),
}

/// How to continue a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateOptions {
    /// Tokens at most; none means up to the end of the context, 0 that only the prompt is computed.
    pub max_tokens: Option<usize>,
    /// Tokens before which neither an end token nor a stop string ends the answer; what a grammar ends, ends.
    pub min_tokens: usize,
    /// Sampling.
    pub sampling: SamplingParams,
    /// Changes each row of logits before a token is sampled from it: tokens that a grammar forces have none.
    pub processor: Option<Processor>,
    /// Strings that end the answer.
    pub stop: Vec<String>,
    /// The string that ended the answer stays in its text.
    pub include_stop: bool,
    /// Tokens that end the answer beside the model's own.
    pub stop_tokens: Vec<u32>,
    /// Answers to the same prompt.
    pub n: usize,
    /// The prompt's text is put before the answer's. With logprobs, those of the prompt's tokens come too.
    pub echo: bool,
    /// Tokens that end answers are chosen like any other.
    pub ignore_eos: bool,
    /// Tokens of the beginning that stay when the context is full: the older half of the others leaves, and the answer
    /// goes on, at the cost of computing what stays again. None: it ends there.
    pub context_shift: Option<usize>,
    /// How the cache of the prompt is compressed behind it, which changes the answer: of each layer and key head only the
    /// tokens stay that the prompt's last ones look at most. None: all stay.
    pub compress: Option<Compression>,
    /// Handles are told how much of the prompt is computed.
    pub progress: bool,
    /// What each answer must look like.
    pub grammar: Option<Grammar>,
    /// The likeliest answers are searched for instead of drawn: all of their pieces come when the search has ended. The options
    /// that it follows are those of [`Model::beam`](crate::Model::beam).
    pub beams: Option<BeamOptions>,
    /// How tokens are guessed ahead, where the model was loaded with a draft. It changes the speed and nothing else.
    pub speculate: Speculate,
    /// Where reasoning before the answer ends, and how long it may be. A grammar is of what follows.
    pub reasoning: Option<Boundary>,
    /// The beginning of the answer, where an earlier request was cut: it goes on as it would have. The other options are to
    /// be the same; `n` is 1.
    pub resume: Option<AnswerState>,
    /// Pictures of the prompt, in the order of their markers. A text has the model's markers where they stand, and its special
    /// tokens are read; tokens have as many soft tokens as the pictures have rows.
    pub images: Vec<Arc<Picture>>,
    /// Sounds of the prompt, in the same way.
    pub sounds: Vec<Arc<Sound>>,
    /// Priority, deadline, and what else a server sets.
    pub terms: Terms,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        GenerateOptions {
            max_tokens: None,
            min_tokens: 0,
            sampling: SamplingParams::default(),
            processor: None,
            stop: vec![],
            include_stop: false,
            stop_tokens: vec![],
            n: 1,
            echo: false,
            ignore_eos: false,
            context_shift: None,
            compress: None,
            progress: false,
            grammar: None,
            beams: None,
            speculate: Speculate::default(),
            reasoning: None,
            resume: None,
            images: vec![],
            sounds: vec![],
            terms: Terms::default(),
        }
    }
}

/// An answer that may go on: its tokens, and where its sampler stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AnswerState {
    /// All tokens of the answer so far.
    pub tokens: Vec<u32>,
    /// Where its sampler stands.
    pub sampler: SamplerState,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// Its text; empty for a model without a tokenizer.
    pub text: String,
    /// Chosen tokens, without the one that ended the answer.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// Whether it satisfies the request's grammar; if not, it is a beginning of a text that does. None without one.
    pub complete: Option<bool>,
    /// Where its sampler stands, for a request that goes on from here.
    pub sampler: SamplerState,
    /// Natural logarithm of each token's probability, and the most likely tokens beside it; empty if not asked for.
    pub logprobs: Vec<(f32, Vec<(u32, f32)>)>,
    /// The prompt's tokens from the second one on, in the first answer; empty unless asked for by `echo` too.
    pub prompt_logprobs: Vec<Scored>,
    /// Counts.
    pub usage: Usage,
    /// Where the time went.
    pub timings: Timings,
    /// What the pictures and sounds of the prompt became.
    pub media: MediaUsed,
}

/// Tokens of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Of the prompt.
    pub prompt_tokens: usize,
    /// Of the prompt, found in the cache.
    pub cached_tokens: usize,
    /// Of these, read from disk.
    pub disk_tokens: usize,
    /// Of the answer.
    pub completion_tokens: usize,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Which of the `n` answers.
    pub index: usize,
    /// Whole characters, possibly none.
    pub text: String,
    /// The token that it came with; none for the last piece.
    pub token: Option<u32>,
    /// The grammar left no other token: it was taken without sampling.
    pub forced: bool,
    /// Logarithm of the token's probability, where asked for.
    pub logprob: Option<f32>,
    /// Most likely tokens, where asked for.
    pub top: Vec<(u32, f32)>,
    /// How likely prompt tokens were, where asked for; such a piece has nothing else.
    pub prompt: Vec<Scored>,
    /// Set on the last piece of an answer.
    pub end: Option<(FinishReason, Timings)>,
    /// As [`Completion::complete`], on the last piece.
    pub complete: Option<bool>,
    /// Where the sampler stands, on the last piece.
    pub sampler: Option<SamplerState>,
}

impl Piece {
    pub(crate) fn empty() -> Piece {
        Piece {
            index: 0,
            text: String::new(),
            token: None,
            forced: false,
            logprob: None,
            top: vec![],
            prompt: vec![],
            end: None,
            complete: None,
            sampler: None,
        }
    }
}

impl Completion {
    /// An answer that has not begun.
    pub fn empty() -> Completion {
        Completion {
            text: String::new(),
            tokens: vec![],
            finish_reason: FinishReason::Length { by: LengthBy::MaxTokens },
            complete: None,
            sampler: SamplerState::default(),
            logprobs: vec![],
            prompt_logprobs: vec![],
            usage: Usage::default(),
            timings: Timings::default(),
            media: MediaUsed::default(),
        }
    }

    /// Appends a piece.
    pub fn push(&mut self, piece: Piece) {
        self.text.push_str(&piece.text);
        self.tokens.extend(piece.token);
        self.prompt_logprobs.extend(piece.prompt);
        self.logprobs.extend(piece.logprob.map(|l| (l, piece.top)));
        if let Some((reason, timings)) = piece.end {
            self.finish_reason = reason;
            self.complete = piece.complete;
            self.sampler = piece.sampler.unwrap_or_default();
            self.timings = timings;
            self.usage = Usage {
                prompt_tokens: timings.prompt_tokens,
                cached_tokens: timings.cached_tokens,
                disk_tokens: timings.disk_tokens,
                completion_tokens: self.tokens.len(),
            };
        }
    }
}
