//! Nucleus sampling (Holtzman et al. 2019).

use super::candidates::Candidates;
use super::chain::{Build, Shape, Stage};
use super::params::group;
use super::stream::Stream;
use super::{Context, SampleError};

group! { "top_p"
    /// Keeps the smallest set of most likely tokens whose probabilities sum to `p`.
    pub struct TopP {
        /// Probability that the kept tokens hold together; 1: off, 0: only the most likely token.
        p: f32 = 0.95, "top_p", 0.0..=1.0;
    }
}

impl Build for TopP {
    fn stage(&self, _context: &Context) -> Result<Stage, SampleError> {
        Ok(if self.p >= 1.0 { Stage::Off } else { Stage::Cut(Box::new(self.clone())) })
    }
}

impl Shape for TopP {
    fn apply(&mut self, candidates: &mut Candidates, _stream: &mut Stream) {
        candidates.keep_mass(self.p);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{all, kept, logits, mild_row, row, softmax};
    use proptest::prelude::*;

    #[test]
    fn worked_example() {
        let row = logits(&[0.1, 0.5, 0.3, 0.1]);
        assert_eq!(kept(&mut TopP { p: 0.45 }, &row, 0), [1]);
        assert_eq!(kept(&mut TopP { p: 0.7 }, &row, 0), [1, 2]);
        assert_eq!(kept(&mut TopP { p: 0.85 }, &row, 0), [1, 2, 0]);
        assert_eq!(kept(&mut TopP { p: 0.0 }, &row, 0), [1]);
        assert_eq!(kept(&mut TopP { p: 0.0 }, &row, 2), [1, 2]);
    }

    proptest! {
        #[test]
        fn the_nucleus_holds_p_and_is_the_smallest_that_does(row in mild_row(1..600), p in 0.01f32..0.999) {
            let kept = kept(&mut TopP { p }, &row, 0);
            let all = all(&row);
            prop_assert_eq!(&kept[..], &all[..kept.len()]);
            let probs = softmax(&row);
            let mass = |ids: &[u32]| ids.iter().map(|&id| probs[id as usize]).sum::<f64>();
            // 600 probabilities in f32, each rounded by at most 6e-8 of itself, and the scale by as much again.
            prop_assert!(mass(&kept) >= f64::from(p) - 1e-6);
            prop_assert!(mass(&kept[..kept.len() - 1]) < f64::from(p) + 1e-6);
        }

        #[test]
        fn a_larger_p_keeps_more(row in row(1..300), p in 0.01f32..0.5) {
            let (few, many) = (kept(&mut TopP { p }, &row, 0), kept(&mut TopP { p: p * 2.0 }, &row, 0));
            prop_assert!(many.starts_with(&few));
        }
    }
}
