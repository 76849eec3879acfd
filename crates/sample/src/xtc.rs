//! XTC, "exclude top choices" (p-e-w, text-generation-webui pull request 6335).

use super::candidates::Candidates;
use super::chain::{Build, Shape, Stage};
use super::params::group;
use super::stream::Stream;
use super::{Context, SampleError};

group! { "xtc"
    /// Now and then drops the most likely tokens and keeps the least likely of those that are likely enough.
    pub struct Xtc {
        /// How often the cut is made; 0: never (off), 1: for every token.
        probability: f32 = 0.0, "xtc_probability", 0.0..=1.0;
        /// Probability from which a token is likely enough; above 0.5 no two tokens can be: off.
        threshold: f32 = 0.1, "xtc_threshold", 0.0..=1.0;
    }
}

impl Build for Xtc {
    fn stage(&self, _context: &Context) -> Result<Stage, SampleError> {
        let off = self.probability <= 0.0 || self.threshold > 0.5;
        Ok(if off { Stage::Off } else { Stage::Cut(Box::new(self.clone())) })
    }
}

impl Shape for Xtc {
    fn apply(&mut self, candidates: &mut Candidates, stream: &mut Stream) {
        // Drawn for every token, so that where the stream stands does not hang on the logits.
        if stream.uniform() >= f64::from(self.probability) {
            return;
        }
        candidates.sort();
        let likely = candidates.softmax().iter().take_while(|c| c.p >= self.threshold).count();
        candidates.drop_front(likely.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{all, kept, logits, row, with};
    use proptest::prelude::*;

    fn always(threshold: f32) -> Xtc {
        Xtc { probability: 1.0, threshold }
    }

    #[test]
    fn worked_example() {
        let row = logits(&[0.4, 0.3, 0.2, 0.1]);
        assert_eq!(kept(&mut always(0.15), &row, 0), [2, 3]);
        assert_eq!(kept(&mut always(0.05), &row, 0), [3]);
        assert_eq!(kept(&mut always(0.05), &row, 2), [0, 1, 2, 3], "one left would be fewer than min_keep");
        assert_eq!(kept(&mut always(0.35), &row, 0), [0, 1, 2, 3], "one likely token alone stays");
        assert_eq!(kept(&mut always(0.5), &row, 0), [0, 1, 2, 3], "and so does a row without any");
    }

    #[test]
    fn cuts_as_often_as_its_probability() {
        let row = logits(&[0.5, 0.5]);
        let (mut xtc, mut stream) = (Xtc { probability: 0.3, threshold: 0.1 }, Stream::new(7, 0));
        let cuts = (0..10_000)
            .filter(|_| {
                with(&row, 0, |c| {
                    xtc.apply(c, &mut stream);
                    c.list().len() == 1
                })
            })
            .count();
        // Standard deviation sqrt(10000 * 0.3 * 0.7) = 46; four of them.
        assert!((2816..=3184).contains(&cuts), "{cuts}");
    }

    proptest! {
        #[test]
        fn keeps_the_end_of_the_ranking(row in row(1..200), threshold in 0.0f32..0.5) {
            let kept = kept(&mut always(threshold), &row, 0);
            prop_assert!(!kept.is_empty() && all(&row).ends_with(&kept));
        }
    }
}
