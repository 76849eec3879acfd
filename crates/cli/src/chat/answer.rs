//! One answer: the conversation is made to fit, and the text is written as it comes.

use super::{ChatLoop, Flow};
use crate::{
    error::Result,
    interrupt::{self, On},
    output::{self, note},
    stats::line,
};
use lamina::{Completion, FinishReason, GenerateOptions, LengthBy, Prompt};
use std::time::Duration;

/// How long a Ctrl-C may wait.
const GLANCE: Duration = Duration::from_millis(50);

impl ChatLoop {
    /// Answers the last message. A message that cannot be answered is taken back, so that the next one does not fail
    /// for the same reason.
    pub(super) fn answer(&mut self) -> Result<Flow> {
        match self.try_answer() {
            Ok(()) => Ok(Flow::Next),
            Err(e) => {
                self.session.undo();
                Err(e)
            }
        }
    }

    fn try_answer(&mut self) -> Result<()> {
        let prompt = Prompt::Tokens(self.fit()?);
        let stop = self.template.stop.iter().map(|s| (*s).to_owned());
        let stop = self.options.stop.iter().cloned().chain(stop).collect();
        let options = GenerateOptions { stop, ..self.options.clone() };
        interrupt::set(On::Catch);
        let answer = self.stream(&prompt, &options);
        interrupt::set(On::Hint);
        let answer = answer?;
        self.keep(&answer);
        if self.stats {
            note(&line(&answer));
        }
        Ok(())
    }

    /// Tokens of the conversation; the oldest turns are dropped until half of the context is free, so that this does
    /// not happen, and the computed beginning is not lost, with every message.
    fn fit(&mut self) -> Result<Vec<u32>> {
        let context = self.model.info().context;
        let room = self.options.max_tokens.unwrap_or(usize::MAX).min(context / 4).max(1);
        let mut tokens = self.tokens()?;
        if tokens.len() + room <= context {
            return Ok(tokens);
        }
        let mut turns = 0;
        while tokens.len() > context / 2 && self.session.drop_oldest() {
            turns += 1;
            tokens = self.tokens()?;
        }
        if turns > 0 {
            note(&format!("the context of {context} tokens is full: the oldest {turns} turns are dropped"));
        }
        Ok(tokens)
    }

    fn tokens(&self) -> Result<Vec<u32>> {
        Ok(self.model.chat_tokens(&self.session.window(), &self.template.options)?)
    }

    /// Tokens of the conversation so far, without the beginning of an answer.
    pub(super) fn count(&self) -> Result<usize> {
        let window = self.session.window();
        if window.is_empty() {
            return Ok(0);
        }
        let options = lamina::ChatOptions { no_generation_prompt: true, ..self.template.options.clone() };
        Ok(self.model.chat_tokens(&window, &options)?.len())
    }

    fn stream(&self, prompt: &Prompt, options: &GenerateOptions) -> Result<Completion> {
        let mut stream = self.model.stream(prompt, options)?;
        let mut answer = Completion::empty();
        let mut begun = false;
        loop {
            if interrupt::hit() {
                stream.cancel();
            }
            match stream.next_within(GLANCE) {
                Ok(None) => {}
                Ok(Some(piece)) => {
                    // White space before the first word is the template's affair, not the reader's.
                    let text = if begun { piece.text.as_str() } else { piece.text.trim_start() };
                    begun |= !text.is_empty();
                    output::text(text)?;
                    answer.push(piece);
                }
                Err(Some(e)) => return Err(e.into()),
                Err(None) => break,
            }
        }
        output::text("\n")?;
        Ok(answer)
    }

    /// Adds the answer to the conversation and says why it ended, where that is not plain.
    fn keep(&mut self, answer: &Completion) {
        match answer.finish_reason {
            FinishReason::Stop { .. } => {}
            FinishReason::Cancelled => note("stopped"),
            FinishReason::Length { by: LengthBy::MaxTokens } => note("ended at max_tokens"),
            FinishReason::Length { by: LengthBy::Context } => note("ended at the end of the context"),
            FinishReason::Length { by: LengthBy::Deadline } => note("ended at its deadline"),
        }
        if answer.finish_reason == FinishReason::Cancelled && answer.text.trim().is_empty() {
            // Two messages of the user in a row are what many templates refuse.
            self.session.undo();
            return;
        }
        self.session.answered(answer.text.trim());
    }
}
