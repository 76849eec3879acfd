//! What a step computes, as far as its cost depends on it.

use lamina_plan::RowKind;

/// The sequences of a step, all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostShape {
    /// How many.
    pub sequences: usize,
    /// Rows of each: 1 while decoding, the rows of a chunk in a prompt.
    pub rows: usize,
    /// Tokens of each before the step.
    pub depth: usize,
    /// Rows of each that want logits.
    pub logits: usize,
}

impl CostShape {
    pub(crate) fn count(&self, kind: RowKind) -> f64 {
        let each = if kind == RowKind::All { self.rows } else { self.logits };
        (self.sequences * each) as f64
    }
}
