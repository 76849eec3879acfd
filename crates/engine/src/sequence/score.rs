//! Logprobs of a prompt's tokens: which rows they need, and which were told.

use super::Sequence;
use crate::{
    answer::Answer,
    events::{
        outbox::PendingEvents,
        output::{Event, Scored},
    },
    sequence::purpose::Purpose,
};
use std::ops::Range;

impl Sequence {
    /// Tokens at its beginning whose cells it may take from others.
    pub fn adoptable(&self) -> usize {
        match &self.purpose {
            Purpose::Pass { .. } => 0,
            Purpose::Beams(_) => self.sharable(),
            Purpose::Answer(_) if self.sums_all_rows() => 0,
            // The row before a token scores it.
            Purpose::Answer(a) if self.scores(a) => self.sharable().min(a.scored.max(1) - 1),
            Purpose::Answer(_) => self.sharable(),
        }
    }

    /// True when rows of the prompt are still wanted for their logprobs.
    pub(super) fn scores(&self, answer: &Answer) -> bool {
        answer.generation.prompt_logprobs.is_some() && answer.scored < self.prompt_len
    }

    /// Places of the prompt's tokens that `rows` rows from `start` on score, and how many of the most likely tokens are wanted
    /// beside each; none where that was not asked for, or is done.
    pub fn to_score(&self, start: usize, rows: usize) -> Option<(Range<usize>, usize)> {
        let Purpose::Answer(answer) = &self.purpose else { return None };
        let top = answer.generation.prompt_logprobs.filter(|_| self.scores(answer))?;
        // Nothing comes before the first token; those that are computed again were scored before.
        let first = answer.scored.max(start + 1);
        let end = (start + 1 + rows).min(self.prompt_len);
        Some((first..end.max(first), top))
    }

    /// Tells what rows up to position `end` said of the prompt's tokens.
    pub fn scored(&mut self, end: usize, tokens: Vec<Scored>, out: &mut PendingEvents) {
        let Purpose::Answer(answer) = &mut self.purpose else { return };
        answer.scored = answer.scored.max((end + 1).min(self.prompt_len));
        if !tokens.is_empty() {
            let start = answer.scored - tokens.len();
            self.put(Event::Prompt { start, tokens }, None, out);
        }
    }
}
