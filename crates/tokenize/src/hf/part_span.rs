//! The span of a passage that is encoded at a time.

/// Where in a passage a part begins, and from where on it may end.
pub(super) struct PartSpan {
    pub from: usize,
    pub bytes: usize,
    /// Steps that patterns may still take in this passage; none before the first.
    pub steps: Option<usize>,
}

impl PartSpan {
    /// From where on it may end.
    pub fn least(&self) -> usize {
        self.from.saturating_add(self.bytes)
    }

    /// The place before the first character that `is`, given the one before it, at which this part may end; else the end.
    pub fn end_before(&self, text: &str, is: impl Fn(char, char) -> bool) -> usize {
        let mut before = None;
        for (at, c) in text[self.from..].char_indices() {
            let at = self.from + at;
            if at >= self.least() && before.is_some_and(|before| is(before, c)) {
                return at;
            }
            before = Some(c);
        }
        text.len()
    }
}
