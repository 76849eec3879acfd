//! The traced twin of an answer's choice.

use crate::{
    answer::{Answer, row::LogitsRow},
    error::Result,
    request::constraint::Legal,
};
use lamina_sample::{ChoiceLooks, Sampled};
use std::time::Instant;

/// A choice that was looked at, until the step's end.
#[derive(Clone, Copy)]
pub(crate) struct SeenChoice {
    pub id: u32,
    pub forced: bool,
    pub allowed: u32,
    pub mask: u64,
    pub looks: ChoiceLooks,
}

impl Answer {
    /// As the everyday choice, always from the whole row, with looks at it.
    ///
    /// # Errors
    /// When the row leaves no choice.
    pub(super) fn sample_traced(&mut self, row: LogitsRow<'_>) -> Result<Sampled> {
        let begin = Instant::now();
        let masked = self.legal_next()? == Legal::Masked;
        let mask_time = begin.elapsed().as_nanos() as u64;
        let mask = masked.then_some(&self.mask[..]);
        let mut looks = ChoiceLooks::default();
        let (sampler, vocab) = (&mut self.sampler, self.vocab);
        let sampled = row.whole(|logits| Ok(sampler.sample_traced(logits, mask, &mut looks)?));
        let allowed = mask.map_or(vocab, |mask| {
            // Bits behind the vocabulary mean nothing.
            let whole: u32 = mask.iter().take(vocab / 32).map(|word| word.count_ones()).sum();
            let rest = mask.get(vocab / 32).map_or(0, |word| (word & ((1 << (vocab % 32)) - 1)).count_ones());
            (whole + rest) as usize
        });
        let sampled = match masked {
            true => sampled.map_err(|e| self.nothing_left(e))?,
            false => sampled?,
        };
        let (id, allowed) = (sampled.id, allowed as u32);
        self.seen.push(SeenChoice { id, forced: false, allowed, mask: mask_time, looks });
        Ok(sampled)
    }

    /// Notes tokens that a grammar forces.
    pub(super) fn saw_forced(&mut self, tokens: &[u32]) {
        let looks = ChoiceLooks::default();
        let one = |&id: &u32| SeenChoice { id, forced: true, allowed: 1, mask: 0, looks };
        self.seen.extend(tokens.iter().map(one));
    }
}
