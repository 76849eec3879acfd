//! The last rows of a prompt, behind which it is decided what of its cache stays.

use super::Sequence;
use crate::sequence::purpose::Purpose;
use std::ops::Range;

impl Sequence {
    /// The last tokens of the prompt, behind whose rows its cache is compressed, all of them in one step; none where all of
    /// it stays.
    ///
    /// It follows from the tokens alone: a sequence that is computed again selects the same cells.
    pub fn closing(&self) -> Option<Range<usize>> {
        self.compressor.as_ref()?.closing(self.decode_from()?)
    }

    /// True where all rows of its prompt decide what stays of it: it computes them all itself.
    pub fn sums_all_rows(&self) -> bool {
        self.compressor.as_ref().is_some_and(|c| c.sums_all_rows()) && self.closing().is_some()
    }

    /// Place of the first token that was chosen and not given; none for a pass.
    pub fn decode_from(&self) -> Option<usize> {
        let Purpose::Answer(_) = &self.purpose else { return None };
        // The beginning of an answer that goes on was no part of the prompt; a shift makes all that it keeps a prompt.
        Some(self.prompt_len.saturating_sub(self.shifted.resumed))
    }

    /// True where its next rows are those behind which its cache is compressed.
    pub fn closes(&self) -> bool {
        self.closing().is_some_and(|closing| closing.start == self.computed)
    }

    /// Its next rows come in one step or not at all.
    pub fn comes_whole(&self) -> bool {
        self.whole || self.closes()
    }

    /// Tokens at its beginning whose cells are what they are in any other sequence, and need not be its own: the row of the
    /// last token is always computed, and so are those behind which the cache is compressed.
    pub fn sharable(&self) -> usize {
        self.closing().map_or(self.tokens.len() - 1, |closing| closing.start)
    }
}
