//! The draw: one token at random from what is left.

use super::candidates::Candidates;
use super::chain::{Build, Pick, Stage};
use super::params::group;
use super::stream::Stream;
use super::{Context, SampleError};

group! { "draw"
    /// Draws the token: one random number for each, from a stream of the request's own.
    pub struct Draw {
        /// Start of the random stream: the same seed gives the same text, whatever else runs; nothing or -1: a new one each time.
        seed: Option<i64> = None, "seed", -1.0..=9223372036854775807.0;
        /// How many candidates the samplers that cut must leave.
        min_keep: u32 = 0, "min_keep", 0.0..=4294967295.0;
    }
}

impl Build for Draw {
    /// The draw is what happens where no sampler picks in its own way.
    fn stage(&self, _context: &Context) -> Result<Stage, SampleError> {
        Ok(Stage::Off)
    }
}

/// By the probabilities of the candidates.
#[derive(Clone)]
pub(super) struct Random;

impl Pick for Random {
    fn pick(&mut self, candidates: &mut Candidates, stream: &mut Stream) -> u32 {
        candidates.at(stream.uniform()).id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{logits, with};

    #[test]
    fn draws_follow_the_distribution() {
        let p = [0.05, 0.4, 0.25, 0.01, 0.29];
        let row = logits(&p);
        let mut stream = Stream::new(2024, 0);
        let mut counts = [0u32; 5];
        for _ in 0..100_000 {
            counts[with(&row, 0, |c| Random.pick(c, &mut stream)) as usize] += 1;
        }
        let chi2: f64 = counts
            .iter()
            .zip(p)
            .map(|(&n, p)| {
                let expected = 1e5 * f64::from(p);
                (f64::from(n) - expected).powi(2) / expected
            })
            .sum();
        // Four degrees of freedom: 18.5 is passed by one fair stream in a thousand, and this seed is fixed.
        assert!(chi2 < 18.5, "{chi2} {counts:?}");
    }

    #[test]
    fn masked_tokens_are_never_drawn() {
        let row = [f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY];
        let mut stream = Stream::new(1, 0);
        assert!((0..1000).all(|_| with(&row, 0, |c| Random.pick(c, &mut stream)) == 1));
    }
}
