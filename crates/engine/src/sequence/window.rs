//! The window at the end of a prompt whose attention decides what of its cache stays.

use super::Sequence;
use crate::purpose::Purpose;
use std::ops::Range;

impl Sequence {
    /// The last tokens of the prompt, behind whose rows its cache is compressed; none where all of it stays.
    ///
    /// It follows from the tokens alone: a sequence that is computed again selects the same cells.
    pub fn window(&self) -> Option<Range<usize>> {
        self.compressor.as_ref()?.window(self.decode_from()?)
    }

    /// Place of the first token that was chosen and not given; none for a pass.
    pub fn decode_from(&self) -> Option<usize> {
        let Purpose::Answer(answer) = &self.purpose else { return None };
        // The beginning of an answer that goes on was no part of the prompt; a shift makes all that it keeps a prompt.
        let resumed = answer.generation.resume.filter(|_| self.shifted.times == 0).map_or(0, |r| r.answered);
        Some(self.prompt_len.saturating_sub(resumed))
    }

    /// True where its next rows are those of the window, all of them in one step.
    pub fn observes(&self) -> bool {
        self.window().is_some_and(|window| window.start == self.computed)
    }

    /// Its next rows come in one step or not at all.
    pub fn comes_whole(&self) -> bool {
        self.whole || self.observes()
    }

    /// Tokens at its beginning whose cells are what they are in any other sequence, and need not be its own: the row of the
    /// last token is always computed, and so are those of the window.
    pub fn sharable(&self) -> usize {
        self.window().map_or(self.tokens.len() - 1, |window| window.start)
    }
}
