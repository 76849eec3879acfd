//! What a request asks for, in nobody's dialect, and what is refused before it is queued.

use super::{form::WantedForm, prompt::JobPrompt, split::Split};
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
    /// Prompts.
    pub prompts: Vec<JobPrompt>,
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

    /// Whether a prompt has pictures or sounds.
    pub fn has_media(&self) -> bool {
        self.prompts.iter().any(|prompt| !prompt.media.is_empty())
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
            if let Some((field, why)) = chat.refused_choice() {
                return Err(ApiError::at(field, why));
            }
            model.constrain_chat(chat, generate).map_err(|e| ApiError::from(e).of(&field))?;
            parts.extend((chat.warnings.len() > known).then(|| "tools".to_owned()));
        }
        if let Some(grammar) = &generate.grammar {
            // Kept by the model: the engine finds it ready.
            model.matcher(grammar).map_err(|e| ApiError::from(e).of(&field))?;
        }
        Ok(parts)
    }

    /// Refuses what is beyond the limits of the server. Those of the model and of its parameters are the engine's, which
    /// checks them when the job is handed over.
    ///
    /// # Errors
    /// What is beyond.
    pub fn check(&self) -> Result<(), ApiError> {
        let (info, options) = (self.lease.live.model.info(), &self.wishes.generate);
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
        self.prompts.iter().try_for_each(|prompt| self.check_room(prompt, info.context))
    }

    /// Refuses a prompt that leaves no room for an answer; one with pictures or sounds before these are encoded.
    fn check_room(&self, prompt: &JobPrompt, context: usize) -> Result<(), ApiError> {
        let options = &self.wishes.generate;
        // The last token of a context can be computed, but nothing can follow it.
        let answers = options.max_tokens != Some(0) && options.context_shift.is_none();
        let tokens = prompt.tokens.len();
        let beyond = tokens > context && !prompt.media.is_empty();
        let full = answers && tokens == context;
        if !(beyond || full) {
            return Ok(());
        }
        let room = if answers { context - 1 } else { context };
        let media = prompt.told();
        let text =
            format!("the prompt has {tokens} tokens{media}, but the context has room for {room}: shorten it");
        Err(ApiError::new(Cause::TooLong { prompt: tokens, context }, text).of("prompt"))
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
