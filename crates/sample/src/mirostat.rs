//! Mirostat (Basu et al. 2020): steers the cut so that the surprise of the chosen tokens stays near a target.

use super::candidate::Candidate;
use super::candidates::Candidates;
use super::chain::{Build, Pick, Stage};
use super::params::group;
use super::stream::Stream;
use super::{Context, SampleError};

group! { "mirostat"
    /// Keeps the perplexity of the text near a target; takes the place of the samplers that cut candidates.
    pub struct Mirostat {
        /// 0: off, 1: the paper's algorithm (a top-k from the estimated Zipf exponent), 2: a cut at the surprise itself.
        version: i32 = 0, "mirostat" | "mirostat_mode", 0.0..=2.0;
        /// Target surprise in bits; higher: more diverse text.
        tau: f32 = 5.0, "mirostat_tau", 0.0..=100.0;
        /// Learning rate: how strongly each token's surprise moves the cut.
        eta: f32 = 0.1, "mirostat_eta", 0.0..=10.0;
    }
}

impl Build for Mirostat {
    fn stage(&self, context: &Context) -> Result<Stage, SampleError> {
        let cut: fn(&mut Candidates, f32, usize) = match self.version {
            0 => return Ok(Stage::Off),
            1 => cut_by_rank,
            _ => cut_by_surprise,
        };
        let mu = 2.0 * self.tau; // the paper's start
        Ok(Stage::Pick(Box::new(Steered { tau: self.tau, eta: self.eta, mu, vocab: context.vocab, cut })))
    }
}

#[derive(Clone)]
struct Steered {
    tau: f32,
    eta: f32,
    /// Highest surprise, in bits, that is let through; moves with every token.
    mu: f32,
    vocab: usize,
    cut: fn(&mut Candidates, mu: f32, vocab: usize),
}

impl Pick for Steered {
    fn pick(&mut self, candidates: &mut Candidates, stream: &mut Stream) -> u32 {
        (self.cut)(candidates, self.mu, self.vocab);
        let chosen = candidates.at(stream.uniform());
        self.mu -= self.eta * (-chosen.p.log2() - self.tau);
        chosen.id
    }

    fn surprise(&mut self) -> Option<&mut f32> {
        Some(&mut self.mu)
    }
}

/// Ranks from which the Zipf exponent is estimated; the paper's and llama.cpp's number.
const RANKS: usize = 100;

/// Version 1: the k for which top-k sampling from a Zipf distribution of the estimated exponent has the surprise `mu`.
fn cut_by_rank(candidates: &mut Candidates, mu: f32, vocab: usize) {
    let front = candidates.front(RANKS);
    if front.len() > 1 {
        let k = rank_of_surprise(zipf_exponent(front), mu, vocab);
        candidates.keep_top(k);
    }
}

/// Equation 30 of the paper: least squares on the ratios of neighbouring probabilities. Ratios are differences of logits.
fn zipf_exponent(ranked: &[Candidate]) -> f64 {
    let (mut tb, mut tt) = (0.0, 0.0);
    for (i, pair) in ranked.windows(2).enumerate() {
        let t = ((i + 2) as f64 / (i + 1) as f64).ln();
        tb += t * (f64::from(pair[0].logit) - f64::from(pair[1].logit));
        tt += t * t;
    }
    tb / tt
}

/// Equation 31: `k = (e 2^mu / (1 - N^-e)) ^ (1 / s)` with `e = s - 1`, whose limit at `s = 1` is `2^mu / ln N`.
fn rank_of_surprise(s: f64, mu: f32, vocab: usize) -> usize {
    let (e, n, reach) = (s - 1.0, vocab as f64, f64::from(mu).exp2());
    let base = if e.abs() < 1e-6 { reach / n.ln() } else { e * reach / (1.0 - n.powf(-e)) };
    base.powf(1.0 / s) as usize
}

/// Version 2: keeps the tokens whose own surprise is at most `mu`, and always the most likely one.
fn cut_by_surprise(candidates: &mut Candidates, mu: f32, _vocab: usize) {
    let best = candidates.best();
    let highest = candidates.softmax().iter().find(|c| c.id == best).map_or(1.0, |c| c.p);
    // -log2(p) <= mu, as a distance below the highest logit.
    let below = (f64::from(-highest.log2()) - f64::from(mu)) * std::f64::consts::LN_2;
    if below >= 0.0 {
        return candidates.keep_best();
    }
    candidates.keep_above((f64::from(candidates.max_logit()) + below) as f32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{all, logits, row, with};
    use proptest::prelude::*;

    fn kept(row: &[f32], mu: f32, cut: fn(&mut Candidates, f32, usize)) -> Vec<u32> {
        with(row, 0, |c| {
            cut(c, mu, row.len());
            c.sort().iter().map(|c| c.id).collect()
        })
    }

    fn zipf(s: f32, n: usize) -> Vec<f32> {
        (1..=n).map(|rank| -s * (rank as f32).ln()).collect()
    }

    /// Surprises of 1/2, 1/4, 1/8, 1/8 are 1, 2, 3, 3 bits.
    #[test]
    fn version_2_cuts_at_the_surprise() {
        let row = logits(&[0.125, 0.5, 0.125, 0.25]);
        for (mu, want) in [(0.5, vec![1]), (1.5, vec![1]), (2.5, vec![1, 3]), (3.5, vec![1, 3, 0, 2])] {
            assert_eq!(kept(&row, mu, cut_by_surprise), want, "mu {mu}");
        }
        assert_eq!(kept(&row, -4.0, cut_by_surprise), [1]);
    }

    #[test]
    fn version_1_finds_the_exponent_of_a_zipf_distribution() {
        for s in [0.7, 1.0, 1.8] {
            let got = with(&zipf(s, 500), 0, |c| zipf_exponent(&c.sort()[..RANKS]));
            assert!((got - f64::from(s)).abs() < 1e-4, "{got} for {s}"); // logits in f32
        }
    }

    /// By hand: s = 2, e = 1, N = 1000, mu = 5: (32 / (1 - 1/1000)) ^ (1/2) = 5.66.
    #[test]
    fn version_1_worked_example() {
        assert_eq!(rank_of_surprise(2.0, 5.0, 1000), 5);
        assert_eq!(kept(&zipf(2.0, 1000), 5.0, cut_by_rank).len(), 5);
        // At s = 1 the formula is 0/0; its limit is 32 / ln 1000 = 4.6, and its neighbours agree.
        for s in [1.0 - 1e-5, 1.0, 1.0 + 1e-5] {
            assert_eq!(rank_of_surprise(s, 5.0, 1000), 4);
        }
    }

    #[test]
    fn the_mean_surprise_comes_near_the_target() {
        let row = zipf(1.0, 2000);
        for version in [1, 2] {
            let params = Mirostat { version, tau: 4.0, eta: 0.1 };
            let Ok(Stage::Pick(mut pick)) = params.stage(&Context::new(row.len())) else { panic!() };
            let total: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
            let mut stream = Stream::new(3, 0);
            let chosen: Vec<u32> = (0..2000).map(|_| with(&row, 0, |c| pick.pick(c, &mut stream))).collect();
            let bits = |&id: &u32| (total / f64::from(row[id as usize]).exp()).log2();
            let mean = chosen.iter().map(bits).sum::<f64>() / 2000.0;
            // The controller holds the surprise within the cut set at tau; over the whole row it is higher by -log2 of
            // the set's mass, which for this row is 1.0 to 1.5 bits.
            assert!((4.0..6.0).contains(&mean), "version {version}: {mean}");
        }
    }

    proptest! {
        #[test]
        fn a_higher_mu_keeps_more_of_the_front(row in row(1..200), mu in 0.0f32..12.0) {
            for cut in [cut_by_rank, cut_by_surprise] {
                let (few, many) = (kept(&row, mu, cut), kept(&row, mu + 1.0, cut));
                prop_assert!(!few.is_empty() && all(&row).starts_with(&many));
                prop_assert!(many.starts_with(&few));
            }
        }
    }
}
