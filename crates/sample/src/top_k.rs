//! Top-k (Fan et al. 2018).

use super::candidates::Candidates;
use super::chain::{Build, Looks, Shape, Stage};
use super::params::group;
use super::stream::Stream;
use super::{Context, SampleError};

group! { "top_k"
    /// Keeps the `k` most likely tokens.
    pub struct TopK {
        /// How many of the most likely tokens are kept; 0 or -1: all.
        k: i32 = 40, "top_k", -1.0..=2147483647.0;
    }
}

impl Build for TopK {
    fn stage(&self, _context: &Context) -> Result<Stage, SampleError> {
        Ok(if self.k <= 0 { Stage::Off } else { Stage::Cut(Box::new(self.clone())) })
    }
}

impl Shape for TopK {
    fn apply(&mut self, candidates: &mut Candidates, _stream: &mut Stream) {
        candidates.keep_top(self.k as usize);
    }

    fn looks(&self) -> Looks {
        Looks::Front(self.k as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{all, kept, row};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keeps_the_front_of_the_ranking(row in row(1..500), k in 1i32..300, min_keep in 0usize..9) {
            let want = all(&row);
            let n = (k as usize).max(min_keep).min(want.len());
            prop_assert_eq!(kept(&mut TopK { k }, &row, min_keep), &want[..n]);
        }
    }

    #[test]
    fn ties_go_to_the_lower_id() {
        assert_eq!(kept(&mut TopK { k: 3 }, &[1.0, 2.0, 1.0, 1.0, 2.0], 0), [1, 4, 0]);
    }
}
