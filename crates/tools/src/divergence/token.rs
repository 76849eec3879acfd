//! Two rows of logits at one place of a text.

use super::{likeliest::LikeliestRow, norm::RowNorm};

/// What two models say of one token of a text, in nats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenDivergence {
    /// The token that the text has.
    pub token: u32,
    /// KL divergence of the model's distribution from the base's: the sum of `p ln(p / q)`, `p` being the base's.
    pub kl: f64,
    /// Logarithm of the token's probability to the base.
    pub base_logprob: f64,
    /// The same to the model.
    pub logprob: f64,
    /// Both models find the same token the likeliest.
    pub same_top: bool,
}

impl TokenDivergence {
    /// How much more probable the token is to the model than to the base.
    pub fn delta_p(&self) -> f64 {
        self.logprob.exp() - self.base_logprob.exp()
    }
}

/// Both rows whole.
pub(super) fn whole_rows(base: &[f32], row: &[f32], token: u32) -> TokenDivergence {
    let (p, q) = (RowNorm::of(base), RowNorm::of(row));
    let term = |(&a, &b): (&f32, &f32)| {
        let log = p.logprob(a);
        // What the base excludes (-inf) adds nothing, whatever the model says.
        if log == f64::NEG_INFINITY { 0.0 } else { log.exp() * (log - q.logprob(b)) }
    };
    TokenDivergence {
        token,
        kl: base.iter().zip(row).map(term).sum(),
        base_logprob: p.logprob(base[token as usize]),
        logprob: q.logprob(row[token as usize]),
        same_top: p.top == q.top,
    }
}

/// The base's likeliest tokens, and its others as one; with how much the divergence may be off.
pub(super) fn likeliest_row(base: &LikeliestRow, row: &[f32], token: u32) -> (TokenDivergence, f64) {
    let q = RowNorm::of(row);
    let (mut kl, mut off) = (0.0, 0.0);
    for &(id, log) in &base.tokens {
        let (log, other) = (f64::from(log), q.logprob(row[id as usize]));
        kl += log.exp() * (log - other);
        // Rounded to 11 bits: the logarithm is off by so much at most, and the probability by as large a share.
        let rounded = log.abs() * f64::from(half::f16::EPSILON) / 2.0;
        off += log.exp() * rounded.exp() * rounded * (1.0 + (log - other).abs());
    }
    if base.rest > 0.0 {
        let rest = f64::from(base.rest);
        let others =
            || (0..row.len() as u32).filter(|id| base.tokens.binary_search_by_key(id, |t| t.0).is_err());
        let logs = || others().map(|id| q.logprob(row[id as usize]));
        // The sum of the others and not 1 less that of the listed: that loses all digits where little is left.
        let lumped = rest * (rest.ln() - logs().map(f64::exp).sum::<f64>().ln());
        kl += lumped;
        // Lumped together they diverge least (the log-sum inequality), and most where the base gives the model's least
        // likely of them as much as its own likeliest of them may have.
        let least = logs().fold(f64::INFINITY, f64::min);
        let most = base.tokens.iter().map(|t| f64::from(t.1)).fold(f64::INFINITY, f64::min);
        off += (rest * (most.min(rest.ln()) - least) - lumped).max(0.0);
    }
    let found = TokenDivergence {
        token,
        kl,
        base_logprob: f64::from(base.chosen),
        logprob: q.logprob(row[token as usize]),
        same_top: base.top as usize == q.top,
    };
    (found, off)
}
