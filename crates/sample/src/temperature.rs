//! Temperature, fixed or by entropy; and greedy choice, which is temperature 0.

use super::candidates::Candidates;
use super::chain::{Build, Looks, Pick, Shape, Stage};
use super::params::group;
use super::stream::Stream;
use super::typical::entropy;
use super::{Context, SampleError};

group! { "temperature"
    /// Divides the logits: below 1 the likely become likelier, above 1 all come nearer to one another.
    pub struct Temperature {
        /// 1: the model's own distribution; 0 or below: always the most likely token (greedy).
        value: f32 = 0.8, "temperature" | "temp", -100.0..=100.0;
        /// Dynamic temperature: how far below and above `temperature` the entropy of the distribution may move it; 0: off.
        range: f32 = 0.0, "dynatemp_range", 0.0..=100.0;
        /// Bends the way from entropy to temperature: below 1 towards high, above 1 towards low temperatures.
        exponent: f32 = 1.0, "dynatemp_exponent", 0.0..=100.0;
    }
}

impl Temperature {
    /// llama.cpp's rule: from `value - range` for a certain token to `value + range` for a flat distribution, with the
    /// share of the highest possible entropy raised to `exponent`.
    fn of(&self, candidates: &mut Candidates) -> f32 {
        let n = candidates.list().len();
        if self.range <= 0.0 || n == 1 {
            return self.value;
        }
        let share = (entropy(candidates.softmax()) / (n as f32).ln()).clamp(0.0, 1.0);
        let low = (self.value - self.range).max(0.0);
        low + (self.value + self.range - low) * share.powf(self.exponent)
    }
}

impl Build for Temperature {
    fn stage(&self, _context: &Context) -> Result<Stage, SampleError> {
        Ok(match self {
            t if t.value + t.range <= 0.0 => Stage::Pick(Box::new(Greedy)),
            t if t.value == 1.0 && t.range == 0.0 => Stage::Off,
            t => Stage::Scale(Box::new(t.clone())),
        })
    }
}

impl Shape for Temperature {
    fn apply(&mut self, candidates: &mut Candidates, _stream: &mut Stream) {
        match self.of(candidates) {
            t if t <= 0.0 => candidates.keep_best(),
            t => candidates.scale(t),
        }
    }
}

/// The highest logit; of equal ones the lowest id.
#[derive(Clone)]
struct Greedy;

impl Pick for Greedy {
    fn pick(&mut self, candidates: &mut Candidates, _stream: &mut Stream) -> u32 {
        candidates.best()
    }

    fn looks(&self) -> Looks {
        Looks::Front(1)
    }

    fn draws(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{all, kept, logits, mild_row, row, shaped, softmax, with};
    use proptest::prelude::*;

    fn fixed(value: f32) -> Temperature {
        Temperature { value, range: 0.0, exponent: 1.0 }
    }

    #[test]
    fn worked_example() {
        // Temperature 0.5 squares the odds: 0.25 : 0.5 : 0.25 become 1 : 4 : 1.
        let got = shaped(&mut fixed(0.5), &logits(&[0.25, 0.5, 0.25]), 0);
        for ((id, p), (want_id, want_p)) in
            got.into_iter().zip([(1, 4.0 / 6.0), (0, 1.0 / 6.0), (2, 1.0 / 6.0)])
        {
            assert_eq!(id, want_id);
            assert!((p - want_p).abs() < 1e-6, "{p}"); // ln, exp and a sum of three in f32
        }
    }

    #[test]
    fn dynamic_temperature_follows_the_entropy() {
        let t =
            |row: &[f32], exponent| with(row, 0, |c| Temperature { value: 1.0, range: 0.5, exponent }.of(c));
        assert!((t(&[2.0; 16], 1.0) - 1.5).abs() < 1e-6, "flat: the highest");
        assert!((t(&[90.0, 0.0, 0.0], 1.0) - 0.5).abs() < 1e-6, "certain: the lowest");
        // One bit of two: half the possible entropy.
        let half = logits(&[0.5, 0.5, 1e-20, 1e-20]);
        assert!((t(&half, 1.0) - 1.0).abs() < 1e-6);
        assert!((t(&half, 2.0) - 0.75).abs() < 1e-6);
    }

    #[test]
    fn a_dynamic_temperature_of_zero_keeps_the_best() {
        let mut t = Temperature { value: 0.5, range: 0.5, exponent: 1.0 };
        assert_eq!(kept(&mut t, &[300.0, 0.0, 0.0], 3), [0]);
    }

    #[test]
    fn greedy_takes_the_lowest_id_of_equals() {
        assert_eq!(with(&[1.0, 5.0, 5.0], 0, |c| Greedy.pick(c, &mut Stream::new(0, 0))), 1);
        for t in [fixed(0.0), fixed(-1.0)] {
            assert!(matches!(t.stage(&Context::new(3)), Ok(Stage::Pick(_))));
        }
    }

    proptest! {
        #[test]
        fn keeps_every_candidate_and_the_ranking(row in row(1..100), t in 0.001f32..100.0) {
            // A low temperature can drop two huge logits into one; the ranking by id then decides, so compare sets.
            let mut got = kept(&mut fixed(t), &row, 0);
            let mut want = all(&row);
            got.sort_unstable();
            want.sort_unstable();
            prop_assert_eq!(got, want);
        }

        #[test]
        fn a_higher_temperature_raises_the_entropy(row in mild_row(2..100), t in 0.1f32..2.0) {
            let bits = |t: f32| -> f64 {
                shaped(&mut fixed(t), &row, 0).iter().map(|c| f64::from(c.1)).filter(|&p| p > 0.0).map(|p| -p * p.ln()).sum()
            };
            prop_assert!(bits(t * 2.0) >= bits(t) - 1e-5); // 100 terms rounded in f32
        }

        #[test]
        fn equals_the_definition(row in mild_row(1..100), t in 0.1f32..5.0) {
            let scaled: Vec<f32> = row.iter().map(|x| x / t).collect();
            let want = softmax(&scaled);
            for (id, p) in shaped(&mut fixed(t), &row, 0) {
                // Logits up to 240 in f32 are off by 1.5e-5, and so is the logarithm of a probability.
                prop_assert!((f64::from(p) - want[id as usize]).abs() <= 5e-5);
            }
        }
    }
}
