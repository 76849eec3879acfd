//! Top-n-sigma (Tang et al. 2024, "Top-nσ: Not All Logits Are You Need").

use super::candidate::Candidate;
use super::candidates::Candidates;
use super::chain::{Build, Shape, Stage};
use super::params::group;
use super::stream::Stream;
use super::{Context, SampleError};

group! { "top_n_sigma"
    /// Keeps the logits within `n` standard deviations of the highest; does not depend on the temperature.
    pub struct TopNSigma {
        /// Standard deviations below the highest logit that are kept; 0 or below: off.
        n: f32 = -1.0, "top_n_sigma", -1.0..=1000.0;
    }
}

impl Build for TopNSigma {
    fn stage(&self, _context: &Context) -> Result<Stage, SampleError> {
        Ok(if self.n <= 0.0 { Stage::Off } else { Stage::Cut(Box::new(self.clone())) })
    }
}

impl Shape for TopNSigma {
    fn apply(&mut self, candidates: &mut Candidates, _stream: &mut Stream) {
        let deviation = deviation(candidates.list());
        candidates.keep_above((f64::from(candidates.max_logit()) - f64::from(self.n) * deviation) as f32);
    }
}

/// Standard deviation of all logits, as of a whole population; masked tokens are not among the candidates.
fn deviation(candidates: &[Candidate]) -> f64 {
    let n = candidates.len() as f64;
    let mean = candidates.iter().map(|c| f64::from(c.logit)).sum::<f64>() / n;
    let variance = candidates.iter().map(|c| (f64::from(c.logit) - mean).powi(2)).sum::<f64>() / n;
    variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{all, kept, mild_row, row};
    use proptest::prelude::*;

    /// Mean 2, squares 4 + 1 + 1 + 4 = 10 over 4: a deviation of 1.58, so 4 - 1.58 = 2.42 is the lowest kept.
    #[test]
    fn worked_example() {
        let row = [0.0, 1.0, f32::NEG_INFINITY, 3.0, 4.0];
        assert_eq!(kept(&mut TopNSigma { n: 1.0 }, &row, 0), [4, 3]);
        assert_eq!(kept(&mut TopNSigma { n: 0.5 }, &row, 0), [4]);
        assert_eq!(kept(&mut TopNSigma { n: 0.5 }, &row, 3), [4, 3, 1]);
    }

    proptest! {
        #[test]
        fn a_larger_n_keeps_more_from_the_front(row in row(1..80), n in 0.01f32..3.0) {
            let (few, many) = (kept(&mut TopNSigma { n }, &row, 0), kept(&mut TopNSigma { n: n * 2.0 }, &row, 0));
            prop_assert!(many.starts_with(&few) && all(&row).starts_with(&many));
        }

        /// What the paper is about: the kept set is the same at every temperature (up to logits right at the edge).
        #[test]
        fn temperature_does_not_change_the_set(row in mild_row(1..80), n in 0.1f32..3.0) {
            let half: Vec<f32> = row.iter().map(|x| x / 2.0).collect();
            prop_assert_eq!(kept(&mut TopNSigma { n }, &row, 0), kept(&mut TopNSigma { n }, &half, 0));
        }
    }

    #[test]
    fn equal_logits_all_stay() {
        assert_eq!(kept(&mut TopNSigma { n: 1.0 }, &[3.0; 9], 0).len(), 9);
    }
}
