//! The one lookahead of published patterns, `(?!\S)`, said without looking ahead.

/// Alternatives without their `(?!\S)`.
pub(super) struct UnfoldedRules {
    pub patterns: Vec<String>,
    /// By pattern: the match is given one character too many, to see that it is a space.
    pub trims: Vec<bool>,
}

impl UnfoldedRules {
    /// `X(?!\S)` means: X, then the end of the text or a space. It becomes two patterns, `X$` and `X\s` less its
    /// last character, in this order; the first is preferred, as the greedy X would reach the end.
    pub fn unfolded(alternatives: &[&str]) -> UnfoldedRules {
        let (mut patterns, mut trims) = (Vec::new(), Vec::new());
        for alternative in alternatives {
            match alternative.strip_suffix(r"(?!\S)") {
                Some(head) => {
                    patterns.extend([format!("(?:{head})$"), format!(r"(?:{head})\s")]);
                    trims.extend([false, true]);
                }
                None => {
                    patterns.push((*alternative).to_owned());
                    trims.push(false);
                }
            }
        }
        UnfoldedRules { patterns, trims }
    }
}
