//! Locally typical sampling (Meister et al. 2022).

use super::candidate::Candidate;
use super::candidates::Candidates;
use super::chain::{Build, Shape, Stage};
use super::params::group;
use super::stream::Stream;
use super::{Context, SampleError};

group! { "typical"
    /// Keeps the tokens whose surprise is nearest to the entropy of the distribution, up to a mass of `p`.
    pub struct Typical {
        /// Probability that the kept tokens hold together; 1: off.
        p: f32 = 1.0, "typical_p" | "typical", 0.0..=1.0;
    }
}

impl Build for Typical {
    fn stage(&self, _context: &Context) -> Result<Stage, SampleError> {
        if self.p >= 1.0 {
            return Ok(Stage::Off);
        }
        Ok(Stage::Cut(Box::new(Scoring { p: self.p, scores: Vec::new() })))
    }
}

#[derive(Clone)]
struct Scoring {
    p: f32,
    /// How far each candidate's surprise is from the entropy, and its place in the list.
    scores: Vec<(f32, u32)>,
}

impl Shape for Scoring {
    fn apply(&mut self, candidates: &mut Candidates, _stream: &mut Stream) {
        let list = candidates.softmax();
        let entropy = entropy(list);
        let score = |(i, c): (usize, &Candidate)| ((-c.p.ln() - entropy).abs(), i as u32);
        self.scores.clear();
        self.scores.extend(list.iter().enumerate().map(score));
        candidates.keep_mass_by(&mut self.scores, self.p);
    }
}

/// In nats. A probability of 0 adds nothing.
pub(super) fn entropy(list: &[Candidate]) -> f32 {
    let term = |c: &Candidate| if c.p > 0.0 { f64::from(-c.p * c.p.ln()) } else { 0.0 };
    list.iter().map(term).sum::<f64>() as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{all, kept, logits, row};
    use proptest::prelude::*;

    fn typical(p: f32) -> Scoring {
        Scoring { p, scores: Vec::new() }
    }

    /// Entropy of (0.6, 0.3, 0.1) is 0.898 nats; the surprises 0.511, 1.204 and 2.303 are 0.387, 0.306 and 1.405 away.
    #[test]
    fn worked_example() {
        let row = logits(&[0.6, 0.1, 0.3]);
        assert_eq!(kept(&mut typical(0.25), &row, 0), [2]);
        assert_eq!(kept(&mut typical(0.5), &row, 0), [0, 2]);
        assert_eq!(kept(&mut typical(0.95), &row, 0), [0, 2, 1]);
        assert_eq!(kept(&mut typical(0.25), &row, 2), [0, 2]);
    }

    proptest! {
        #[test]
        fn a_larger_p_keeps_more(row in row(1..600), p in 0.01f32..0.5) {
            let (few, many) = (kept(&mut typical(p), &row, 0), kept(&mut typical(p * 2.0), &row, 0));
            let all = all(&row);
            prop_assert!(!few.is_empty() && few.iter().all(|id| many.contains(id)));
            prop_assert!(many.iter().all(|id| all.contains(id)));
        }

        /// The definition with full sorts. f32 like the fast path: scores at the edge must round the same way.
        #[test]
        fn equals_the_definition(row in row(1..600), p in 0.01f32..0.99) {
            let want = crate::testing::with(&row, 0, |c| {
                let list = c.softmax().to_vec();
                let h = entropy(&list);
                let mut order = list.clone();
                order.sort_by(|a, b| {
                    let away = |c: &Candidate| (-c.p.ln() - h).abs();
                    away(a).total_cmp(&away(b)).then((b.logit + 0.0).total_cmp(&(a.logit + 0.0))).then(a.id.cmp(&b.id))
                });
                let mut sum = 0.0;
                let n = order.iter().position(|c| { sum += f64::from(c.p); sum >= f64::from(p) });
                let mut ids: Vec<u32> = order[..n.map_or(order.len(), |n| n + 1)].iter().map(|c| c.id).collect();
                ids.sort_unstable();
                ids
            });
            let mut got = kept(&mut typical(p), &row, 0);
            got.sort_unstable();
            prop_assert_eq!(got, want);
        }
    }

    #[test]
    fn equal_logits_keep_the_lowest_ids() {
        assert_eq!(kept(&mut typical(0.5), &[2.0; 8], 0), [0, 1, 2, 3]);
    }
}
