//! Shifting the context of an answer that would end because it is full.
//!
//! The first tokens and the newer half of the others stay, at new positions, and are computed again: StreamingLLM's sinks and
//! window (Xiao et al. 2023) with positions inside the cache. That paper turns the kept keys to their new positions and goes
//! on, which leaves in them what they saw of tokens that are gone, needs a way to turn keys of each type and layer, and is
//! nothing that a recurrent state can do. Computing them again costs one more row for each token of the answer, at the speed
//! of prompts, and gives the bits of a request that begins with what was kept.

use super::Sequence;
use crate::sequence::purpose::Purpose;
use std::sync::Arc;

/// What shifts of the context have changed in a sequence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ContextShifts {
    /// Tokens of the prompt as it was given.
    pub prompt: usize,
    /// Tokens that were chosen and count as prompt since the last shift.
    pub chosen: usize,
    /// Tokens at the end of the prompt that an answer had before it was cut, behind its last shift.
    pub resumed: usize,
    /// Shifts.
    pub times: u32,
}

impl Sequence {
    /// True for an answer that shifts now, in a context of so many tokens.
    pub fn overflows(&self, context: usize) -> bool {
        self.sinks().is_some() && self.tokens.len() > context
    }

    fn sinks(&self) -> Option<usize> {
        if let Purpose::Answer(answer) = &self.purpose { answer.generation.context_shift } else { None }
    }

    /// Shifts as often as the context was full while the tokens came that it begins with: the prompt at once, those of an answer
    /// that goes on one by one. It has not run.
    pub fn shift_as_told(&mut self, context: usize) {
        if !self.overflows(context) {
            return;
        }
        let told = self.tokens.split_off(self.tokens.len().saturating_sub(self.shifted.resumed));
        (self.prompt_len, self.shifted.resumed) = (self.tokens.len(), 0);
        for token in told {
            if self.overflows(context) {
                self.shift(context);
            }
            self.tokens.push(token);
            (self.prompt_len, self.shifted.resumed) = (self.prompt_len + 1, self.shifted.resumed + 1);
        }
        if self.overflows(context) {
            self.shift(context);
        }
    }

    /// Drops the older half of the tokens behind the first ones that stay. It holds no memory.
    pub fn shift(&mut self, context: usize) {
        let Some(sinks) = self.sinks() else { return };
        let kept = context.saturating_sub(sinks).div_ceil(2);
        let chosen = self.answered();
        self.tokens.drain(sinks..(self.tokens.len() - kept).max(sinks));
        self.shifted = ContextShifts { chosen, resumed: 0, times: self.shifted.times + 1, ..self.shifted };
        self.prompt_len = self.tokens.len();
        self.prompt_pages = Arc::default();
        if let Purpose::Answer(answer) = &mut self.purpose {
            // The logprobs of the prompt were told before the first token was chosen.
            answer.scored = self.prompt_len;
        }
    }
}
