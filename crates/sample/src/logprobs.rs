//! Logarithms of probabilities that are reported with tokens: the model's own, before every sampler, as OpenAI's and
//! vLLM's APIs have them; or those that the token was drawn by, as llama-server's `post_sampling_probs` asks for.

use super::candidates::Candidates;
use super::chain::{Build, Stage};
use super::params::group;
use super::peak::{Peak, keep_certain};
use super::{Context, SampleError, mask};

group! { "logprobs"
    /// Reports how likely the chosen token and the most likely ones were; has no part in the choice.
    pub struct Logprobs {
        /// How many of the most likely tokens are reported beside the chosen one; nothing: no report.
        count: Option<u32> = None, "logprobs" | "n_probs", -1.0..=1000.0;
        /// 1: the probabilities that are reported are those that the token was drawn by, behind all samplers; 0: the model's own.
        drawn: u32 = 0, "post_sampling_probs", 0.0..=1.0;
    }
}

/// Which probabilities are reported, and of how many tokens beside the chosen one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReportedProbs {
    /// None.
    Off,
    /// The model's own.
    Model(usize),
    /// Those that the token was drawn by.
    Drawn(usize),
}

impl Logprobs {
    /// What is reported of a token.
    pub(super) fn report(&self) -> ReportedProbs {
        match self.count {
            None => ReportedProbs::Off,
            Some(top) if self.drawn == 0 => ReportedProbs::Model(top as usize),
            Some(top) => ReportedProbs::Drawn(top as usize),
        }
    }
}

impl Build for Logprobs {
    fn stage(&self, _context: &Context) -> Result<Stage, SampleError> {
        Ok(Stage::Off)
    }
}

/// Natural logarithms of the probabilities of token `id` and of the `top` most likely tokens (id, logprob), most likely
/// first, in a row of logits. Tokens whose logit is -inf have -inf, and are not among the most likely.
pub fn logprobs(row: &[f32], id: u32, top: usize) -> Result<(f32, Vec<(u32, f32)>), SampleError> {
    let peak = Peak::of(row)?;
    let vocab = row.len();
    let Some(&chosen) = row.get(id as usize).filter(|_| peak.logit > f32::NEG_INFINITY) else {
        return Err(SampleError::NothingLeft { vocab });
    };
    if peak.logit == f32::INFINITY {
        return Ok(certain(row, id, top));
    }
    let norm = norm(row, peak);
    let log = |logit: f32| (f64::from(logit) - norm) as f32;
    let mut most = Vec::new();
    if top > 0 {
        Candidates::new(row, peak, &mut most, 1).keep_top(top);
    }
    Ok((log(chosen), most.iter().map(|c| (c.id, log(c.logit))).collect()))
}

/// The logarithm of the sum of a row's exponentials.
fn norm(row: &[f32], peak: Peak) -> f64 {
    let sum = row.iter().map(|&x| f64::from((x - peak.logit).exp())).sum::<f64>();
    f64::from(peak.logit) + sum.ln()
}

/// The `top` most likely tokens of a row that a mask leaves, most likely first, with the logarithms of their probabilities
/// in the whole row. `mask` is as [`Sampler::sample`](super::Sampler::sample) has it.
///
/// # Errors
/// When a logit is not a number.
pub fn likeliest(row: &mut [f32], mask: Option<&[u32]>, top: usize) -> Result<Vec<(u32, f32)>, SampleError> {
    let whole = Peak::of(row)?;
    if whole.logit == f32::INFINITY {
        keep_certain(row);
        return likeliest(row, mask, top);
    }
    let norm = norm(row, whole);
    mask.into_iter().for_each(|mask| mask::apply(mask, row));
    let (peak, mut most) = (Peak::of(row)?, Vec::new());
    if peak.logit > f32::NEG_INFINITY {
        Candidates::new(row, peak, &mut most, 1).keep_top(top);
    }
    Ok(most.iter().map(|c| (c.id, (f64::from(c.logit) - norm) as f32)).collect())
}

/// As [`logprobs`], of the candidates that samplers have left and token `id` was drawn from.
pub(super) fn drawn(candidates: &mut Candidates, id: u32, top: usize) -> (f32, Vec<(u32, f32)>) {
    let probability = candidates.softmax().iter().find(|c| c.id == id).map_or(0.0, |c| c.p);
    let most = match top {
        0 => vec![],
        n => candidates.front(n).iter().map(|c| (c.id, c.p.ln())).collect(),
    };
    (probability.ln(), most)
}

/// Where logits are +inf, the tokens that have it share all the probability.
fn certain(row: &[f32], id: u32, top: usize) -> (f32, Vec<(u32, f32)>) {
    let sure = |x: f32| x == f32::INFINITY;
    let share = -(row.iter().filter(|&&x| sure(x)).count() as f32).ln();
    let most = row.iter().enumerate().filter(|c| sure(*c.1)).take(top).map(|(i, _)| (i as u32, share));
    (if sure(row[id as usize]) { share } else { f32::NEG_INFINITY }, most.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{all, logits, mild_row, row, softmax, with};
    use proptest::prelude::*;

    #[test]
    fn what_is_left_shares_the_probability() {
        let row = logits(&[0.1, 0.5, 0.2, 0.2]);
        let left = |c: &mut Candidates| c.keep_top(3);
        let (chosen, most) = with(&row, 0, |c| {
            left(c);
            drawn(c, 2, 2)
        });
        let near = |log: f32, p: f32| (log.exp() - p).abs() < 1e-6;
        assert!(near(chosen, 0.2 / 0.9) && near(most[0].1, 0.5 / 0.9), "{chosen} {most:?}");
        // Of equal ones the lower token comes first.
        assert_eq!(most.iter().map(|m| m.0).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(with(&row, 0, |c| drawn(c, 1, 9)).1.len(), 4);
        let cut = with(&row, 0, |c| {
            left(c);
            drawn(c, 0, 0)
        });
        assert_eq!(cut, (f32::NEG_INFINITY, vec![]));
    }

    proptest! {
        #[test]
        fn equals_the_definition(row in mild_row(1..300), at in any::<prop::sample::Index>(), top in 0usize..20) {
            let id = at.index(row.len());
            let (chosen, most) = logprobs(&row, id as u32, top).unwrap();
            let p = softmax(&row);
            // f32 exponentials of differences up to 24, each off by a few 1e-7; the result is rounded to f32.
            prop_assert!((f64::from(chosen) - p[id].ln()).abs() < 5e-6);
            prop_assert_eq!(most.iter().map(|c| c.0).collect::<Vec<_>>(), &all(&row)[..top.min(row.len())]);
            prop_assert!(most.iter().all(|&(id, log)| (f64::from(log) - p[id as usize].ln()).abs() < 5e-6));
        }

        #[test]
        fn never_above_zero_by_more_than_rounding(row in row(1..300)) {
            let (_, most) = logprobs(&row, 0, 1000).unwrap();
            prop_assert!(most.iter().all(|c| c.1 <= 1e-6));
            prop_assert!(most.is_sorted_by(|a, b| a.1 >= b.1));
        }
    }

    #[test]
    fn infinite_logits() {
        let inf = f32::INFINITY;
        assert_eq!(logprobs(&[0.0, -inf], 1, 5).unwrap(), (-inf, vec![(0, 0.0)]));
        let half = 0.5f32.ln();
        assert_eq!(logprobs(&[0.0, inf, 1.0, inf], 1, 5).unwrap(), (half, vec![(1, half), (3, half)]));
        assert_eq!(logprobs(&[0.0, inf], 0, 0).unwrap(), (-inf, vec![]));
        assert_eq!(logprobs(&[-inf, -inf], 0, 0), Err(SampleError::NothingLeft { vocab: 2 }));
        assert_eq!(logprobs(&[], 0, 0), Err(SampleError::NothingLeft { vocab: 0 }));
    }
}
