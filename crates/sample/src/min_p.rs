//! Min-p (Nguyen et al. 2024, "Turning Up the Heat").

use super::candidates::Candidates;
use super::chain::{Build, Shape, Stage};
use super::params::group;
use super::stream::Stream;
use super::{Context, SampleError};

group! { "min_p"
    /// Keeps the tokens that are at least `p` times as likely as the most likely one.
    pub struct MinP {
        /// Smallest probability that is kept, as a share of the highest; 0: off.
        p: f32 = 0.05, "min_p", 0.0..=1.0;
    }
}

impl Build for MinP {
    fn stage(&self, _context: &Context) -> Result<Stage, SampleError> {
        Ok(if self.p <= 0.0 { Stage::Off } else { Stage::Cut(Box::new(self.clone())) })
    }
}

impl Shape for MinP {
    fn apply(&mut self, candidates: &mut Candidates, _stream: &mut Stream) {
        // p >= share * p_max, taken through the logarithm: no softmax is needed.
        candidates.keep_above(candidates.max_logit() + self.p.ln());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{all, kept, logits, row};
    use proptest::prelude::*;

    #[test]
    fn worked_example() {
        let row = logits(&[0.05, 0.5, 0.3, 0.15]);
        assert_eq!(kept(&mut MinP { p: 0.5 }, &row, 0), [1, 2]);
        assert_eq!(kept(&mut MinP { p: 0.2 }, &row, 0), [1, 2, 3]);
        assert_eq!(kept(&mut MinP { p: 1.0 }, &row, 0), [1]);
        assert_eq!(kept(&mut MinP { p: 1.0 }, &row, 3), [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn keeps_the_front_and_more_of_it_for_a_smaller_p(row in row(1..300), p in 0.01f32..1.0) {
            let (few, many) = (kept(&mut MinP { p }, &row, 0), kept(&mut MinP { p: p / 2.0 }, &row, 0));
            prop_assert!(many.starts_with(&few) && all(&row).starts_with(&many) && !few.is_empty());
        }

        #[test]
        fn the_list_and_the_row_give_the_same(row in row(1..300), p in 0.01f32..1.0, min_keep in 0usize..5) {
            let mut listed = Listed(MinP { p });
            prop_assert_eq!(kept(&mut listed, &row, min_keep), kept(&mut MinP { p }, &row, min_keep));
        }
    }

    #[derive(Clone)]
    struct Listed(MinP);
    impl Shape for Listed {
        fn apply(&mut self, candidates: &mut Candidates, stream: &mut Stream) {
            candidates.list();
            self.0.apply(candidates, stream);
        }
    }
}
