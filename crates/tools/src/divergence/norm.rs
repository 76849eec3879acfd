//! What a row of logits has to lose to be logarithms of probabilities.

/// A row as logarithms of probabilities: what a logit has to lose.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowNorm {
    /// The likeliest token, the first of equals.
    pub top: usize,
    norm: f64,
}

impl RowNorm {
    pub fn of(row: &[f32]) -> RowNorm {
        let first = |best: usize, i: usize| if row[i] > row[best] { i } else { best };
        let top = (0..row.len()).fold(0, first);
        let most = f64::from(row[top]);
        let sum: f64 = row.iter().map(|&l| (f64::from(l) - most).exp()).sum();
        RowNorm { top, norm: most + sum.ln() }
    }

    pub fn logprob(&self, logit: f32) -> f64 {
        f64::from(logit) - self.norm
    }
}
