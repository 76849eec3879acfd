//! What a request asks for, in nobody's dialect, and what is refused before it is queued.

use super::{form::WantedForm, split::Split};
use crate::{
    error::{ApiError, Cause},
    models::Lease,
};
use lamina::{EngineError, GenerateOptions};
use std::sync::Arc;

/// Answers to a request at most: prompts times answers to each.
const MOST_CHOICES: usize = 128;
/// Stop strings at most, and their bytes.
const MOST_STOPS: usize = 16;
const MOST_STOP_BYTES: usize = 1024;
/// Biased tokens at most.
const MOST_BIASES: usize = 1024;
/// Tokens with logprobs beside the chosen one at most.
const MOST_LOGPROBS: u32 = 1000;

/// What a request asks for.
pub struct AnswerJob {
    /// The model.
    pub lease: Lease,
    /// Prompts, as tokens.
    pub prompts: Vec<Vec<u32>>,
    /// How to answer each.
    pub wishes: Wishes,
    /// How the text of answers is split.
    pub split: Split,
}

/// How a prompt is answered.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// The engine's options.
    pub generate: GenerateOptions,
    /// Adapters with their scales; none: the usual ones.
    pub lora: Option<Vec<(String, f32)>>,
    /// The slot that remembers the text; none: the one that begins like it.
    pub slot: Option<usize>,
    /// Token ids are part of the answer.
    pub token_ids: bool,
    /// An answer whose time is over is cut instead of refused.
    pub cut_at_deadline: bool,
    /// The form of the answers, where one was asked for.
    pub form: Option<WantedForm>,
}

impl Wishes {
    /// Asks for a form, where one is given.
    ///
    /// # Errors
    /// When there is another one already.
    pub fn ask_form(&mut self, form: Option<WantedForm>) -> Result<(), ApiError> {
        let Some(form) = form else { return Ok(()) };
        let path = form.path.clone();
        match self.form.replace(form) {
            None => Ok(()),
            Some(other) => {
                let text =
                    format!("{path} and {} both say what form the answer has: give one of them", other.path);
                Err(ApiError::at(path, text))
            }
        }
    }
}

impl AnswerJob {
    /// Answers in all.
    pub fn choices(&self) -> usize {
        self.prompts.len().saturating_mul(self.wishes.generate.n)
    }

    /// Compiles what the answers must be: the form that was asked for, calls of the tools, reasoning within its budget.
    /// Returns the fields that are enforced in part only.
    ///
    /// # Errors
    /// When a form or a tool's schema cannot be enforced, or a call is required and there is none to make.
    pub fn constrain(&mut self) -> Result<Vec<String>, ApiError> {
        let generate = &mut self.wishes.generate;
        let form = self.wishes.form.take();
        generate.grammar = form.as_ref().map(WantedForm::compile).transpose()?;
        let inexact = generate.grammar.as_ref().is_some_and(|grammar| !grammar.warnings().is_empty());
        let mut parts: Vec<String> = form.iter().filter(|_| inexact).map(|form| form.path.clone()).collect();
        let model = &self.lease.live.model;
        let field = form.map_or_else(|| "tools".to_owned(), |form| form.path);
        if let Split::Chat(chat) = &mut self.split {
            let chat = Arc::make_mut(chat);
            let known = chat.warnings.len();
            model.constrain_chat(chat, generate).map_err(|e| {
                let choice = e.to_string().contains("tool_choice");
                ApiError::from(e).of(if choice { "tool_choice" } else { &field })
            })?;
            parts.extend((chat.warnings.len() > known).then(|| "tools".to_owned()));
        }
        if let Some(grammar) = &generate.grammar {
            // Kept by the model: the engine finds it ready.
            model.matcher(grammar).map_err(|e| ApiError::from(e).of(&field))?;
        }
        Ok(parts)
    }

    /// Refuses what can never run: the engine would say the same, but later, when a stream has begun.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        let (info, options) = (self.lease.live.model.info(), &self.wishes.generate);
        if !self.lease.live.model.continues_texts() {
            return Err(EngineError::NoNextToken.into());
        }
        if self.prompts.is_empty() {
            return Err(ApiError::at("prompt", "prompt is an empty list: give at least one prompt"));
        }
        if options.n == 0 || self.choices() > MOST_CHOICES {
            let text = format!(
                "n is {} for {} prompts, but from 1 to {MOST_CHOICES} answers in all are possible",
                options.n,
                self.prompts.len()
            );
            return Err(ApiError::at("n", text));
        }
        if let Some(most) = options.max_tokens.filter(|&most| most < options.min_tokens) {
            let text = format!("min_tokens is {}, but max_tokens is {most}", options.min_tokens);
            return Err(ApiError::at("min_tokens", text));
        }
        self.check_stops()?;
        self.check_sampling(info.vocab)?;
        // The last token of a context can be computed, but nothing can follow it.
        let room = if options.max_tokens == Some(0) { info.context } else { info.context.saturating_sub(1) };
        let room = if options.context_shift.is_some() { usize::MAX } else { room };
        self.prompts.iter().try_for_each(|p| check_prompt(p, info.vocab, room))
    }

    fn check_stops(&self) -> Result<(), ApiError> {
        let stop = &self.wishes.generate.stop;
        if stop.len() > MOST_STOPS {
            let text = format!("stop has {} texts, but at most {MOST_STOPS} are possible", stop.len());
            return Err(ApiError::at("stop", text));
        }
        if let Some(i) = stop.iter().position(|s| s.is_empty() || s.len() > MOST_STOP_BYTES) {
            let text =
                format!("stop[{i}] has {} bytes, but must have from 1 to {MOST_STOP_BYTES}", stop[i].len());
            return Err(ApiError::at(format!("stop[{i}]"), text));
        }
        Ok(())
    }

    fn check_sampling(&self, vocab: usize) -> Result<(), ApiError> {
        let sampling = &self.wishes.generate.sampling;
        sampling.check().map_err(|e| ApiError::invalid(e.to_string()))?;
        let biases = &sampling.logit_bias.biases;
        if biases.len() > MOST_BIASES {
            let text =
                format!("logit_bias has {} tokens, but at most {MOST_BIASES} are possible", biases.len());
            return Err(ApiError::at("logit_bias", text));
        }
        if let Some((&token, _)) = biases.last_key_value().filter(|(t, _)| **t as usize >= vocab) {
            return Err(ApiError::from(EngineError::UnknownToken { token, vocab }).of("logit_bias"));
        }
        match sampling.logprobs.count.filter(|&n| n > MOST_LOGPROBS.min(vocab as u32)) {
            Some(n) => {
                Err(ApiError::at("logprobs", format!("logprobs is {n}, which is more than there can be")))
            }
            None => Ok(()),
        }
    }
}

fn check_prompt(prompt: &[u32], vocab: usize, room: usize) -> Result<(), ApiError> {
    if prompt.is_empty() {
        return Err(ApiError::from(EngineError::EmptyPrompt).of("prompt"));
    }
    if let Some(&token) = prompt.iter().find(|&&t| t as usize >= vocab) {
        return Err(ApiError::from(EngineError::UnknownToken { token, vocab }).of("prompt"));
    }
    if prompt.len() > room {
        let text = format!(
            "the prompt has {} tokens, but the context has room for {room}: shorten it",
            prompt.len()
        );
        return Err(ApiError::new(Cause::TooLong { prompt: prompt.len(), context: room + 1 }, text));
    }
    Ok(())
}
