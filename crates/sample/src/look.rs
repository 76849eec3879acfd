//! What a choice was made from, stage by stage: the traced twin of a sampler's chain.
//!
//! The chain that runs every day has no test for it: [`Sampler::sample_traced`](super::Sampler::sample_traced) is a second
//! function, and a test holds their tokens equal. It only reads: a look never lists, sorts or softens candidates.

use super::candidate::Candidate;

/// Likeliest candidates that are noted of a stage.
pub const LOOK: usize = 10;
/// Stages that are noted of a token; what a longer chain does comes into the last one.
pub const STAGES: usize = 12;

/// The distribution behind a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageLook {
    /// `model`, `edits` (mask, bias, penalties, a processor), or the name of the sampler in [`SAMPLERS`](super::SAMPLERS).
    pub name: &'static str,
    /// Candidates that are left.
    pub left: u32,
    /// Entropy in bits.
    pub bits: f32,
    /// How many of `top` are set.
    pub count: u8,
    /// The likeliest candidates and their probabilities among those left, likeliest first.
    pub top: [(u32, f32); LOOK],
}

/// The looks at one choice, in memory of fixed size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChoiceLooks {
    /// Place of the chosen token in the model's own ranking, from 0; [`u32::MAX`] where it was not looked up.
    pub rank: u32,
    /// Natural logarithm of the model's own probability of it.
    pub logprob: f32,
    len: u8,
    stages: [StageLook; STAGES],
}

impl Default for ChoiceLooks {
    fn default() -> ChoiceLooks {
        let none = StageLook { name: "", left: 0, bits: 0.0, count: 0, top: [(0, 0.0); LOOK] };
        ChoiceLooks { rank: u32::MAX, logprob: f32::NAN, len: 0, stages: [none; STAGES] }
    }
}

impl ChoiceLooks {
    /// The stages in their order.
    pub fn stages(&self) -> &[StageLook] {
        &self.stages[..usize::from(self.len)]
    }

    /// Forgets what was seen.
    pub fn clear(&mut self) {
        (self.rank, self.logprob, self.len) = (u32::MAX, f32::NAN, 0);
    }

    /// Notes a stage; candidates without a finite logit are out.
    pub(super) fn note(&mut self, name: &'static str, candidates: impl Iterator<Item = (u32, f32)> + Clone) {
        let at = usize::from(self.len).min(STAGES - 1);
        self.stages[at] = StageLook::of(name, candidates);
        self.len = at as u8 + 1;
    }

    /// Notes where the chosen token stands in the model's own row.
    pub(super) fn place(&mut self, row: &[f32], id: u32) {
        let Some(&chosen) = row.get(id as usize) else { return };
        let ahead = |(i, x): (usize, &f32)| *x > chosen || (*x == chosen && i < id as usize);
        self.rank = row.iter().enumerate().filter(|&c| ahead(c)).count() as u32;
        let peak = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|x| f64::from((x - peak).exp())).sum();
        self.logprob = (f64::from(chosen - peak) - sum.ln()) as f32;
    }
}

impl StageLook {
    /// Entropy and front of candidates by their logits.
    fn of(name: &'static str, candidates: impl Iterator<Item = (u32, f32)> + Clone) -> StageLook {
        let finite = candidates.filter(|(_, logit)| logit.is_finite());
        let peak = finite.clone().map(|c| c.1).fold(f32::NEG_INFINITY, f32::max);
        let (mut left, mut sum, mut weighted) = (0u32, 0.0f64, 0.0f64);
        let (mut top, mut count) = ([(0u32, f32::NEG_INFINITY); LOOK], 0usize);
        for (id, logit) in finite {
            let p = f64::from((logit - peak).exp());
            (left, sum, weighted) = (left + 1, sum + p, weighted + p * f64::from(logit - peak));
            if count < LOOK || logit > top[LOOK - 1].1 {
                let at = top[..count].partition_point(|c| c.1 > logit || (c.1 == logit && c.0 < id));
                count = (count + 1).min(LOOK);
                top[at..count].rotate_right(1);
                top[at] = (id, logit);
            }
        }
        // H = ln Z - sum(p x), of probabilities p = e^x / Z.
        let bits = if left > 0 { (sum.ln() - weighted / sum).max(0.0) / std::f64::consts::LN_2 } else { 0.0 };
        for (_, x) in &mut top[..count] {
            *x = (f64::from((*x - peak).exp()) / sum) as f32;
        }
        top[count..].fill((0, 0.0));
        StageLook { name, left, bits: bits as f32, count: count as u8, top }
    }

    /// The likeliest candidates.
    pub fn front(&self) -> &[(u32, f32)] {
        &self.top[..usize::from(self.count)]
    }
}

/// Candidates of a row.
pub(super) fn of_row(row: &[f32]) -> impl Iterator<Item = (u32, f32)> + Clone + '_ {
    row.iter().enumerate().map(|(i, x)| (i as u32, *x))
}

/// Candidates of a list.
pub(super) fn of_list(list: &[Candidate]) -> impl Iterator<Item = (u32, f32)> + Clone + '_ {
    list.iter().map(|c| (c.id, c.logit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Sampler, SamplingParams, testing::mild_row};
    use proptest::prelude::*;

    const SETS: &[&[(&str, f64)]] = &[
        &[],
        &[("temperature", 0.0)],
        &[("top_k", 0.0), ("min_p", 0.0), ("top_p", 1.0)],
        &[("top_k", 0.0), ("min_p", 0.2), ("logprobs", 3.0)],
        &[("typical_p", 0.8), ("xtc_probability", 0.5), ("xtc_threshold", 0.05)],
        &[("repeat_penalty", 1.3), ("dry_multiplier", 0.8), ("top_n_sigma", 1.5)],
        &[("mirostat", 1.0)],
        &[("mirostat", 2.0), ("presence_penalty", 0.4)],
        &[("dynatemp_range", 0.5), ("min_keep", 4.0), ("post_sampling_probs", 1.0), ("logprobs", 2.0)],
    ];

    fn sampler(set: &[(&str, f64)], vocab: usize) -> Sampler {
        let mut params = SamplingParams::default();
        params.set("seed", 7.0).unwrap();
        set.iter().for_each(|&(name, value)| params.set(name, value).unwrap());
        Sampler::new(&params, Context::new(vocab)).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_twin_chooses_the_same(rows in proptest::collection::vec(mild_row(40..41), 6), masked in any::<u32>()) {
            for set in SETS {
                let (mut plain, mut traced) = (sampler(set, 40), sampler(set, 40));
                for (i, row) in rows.iter().enumerate() {
                    let mask = [masked | 1, u32::MAX];
                    let mask = (i % 2 == 0).then_some(&mask[..]);
                    let mut looks = ChoiceLooks::default();
                    let one = plain.sample(&mut row.clone(), mask).unwrap();
                    let other = traced.sample_traced(&mut row.clone(), mask, &mut looks).unwrap();
                    prop_assert_eq!(&one, &other);
                    plain.accept(one.id);
                    traced.accept(other.id);
                    prop_assert_eq!(plain.state(), traced.state());
                    prop_assert_eq!(looks.stages()[0].left, 40);
                    // Whoever is chosen is among those that the last stage left.
                    let last = looks.stages().last().unwrap();
                    prop_assert!(last.left > 10 || last.front().iter().any(|c| c.0 == one.id));
                }
            }
        }

        #[test]
        fn a_look_is_what_the_definition_says(row in mild_row(1..200)) {
            let look = StageLook::of("model", of_row(&row));
            let p = crate::testing::softmax(&row);
            let bits: f64 = -p.iter().filter(|p| **p > 0.0).map(|p| p * p.log2()).sum::<f64>();
            // f32 exponentials, each off by a few 1e-7, weighted by logarithms of at most 24.
            prop_assert!((f64::from(look.bits) - bits).abs() < 1e-4, "{} {}", look.bits, bits);
            let order = crate::testing::all(&row);
            let front: Vec<u32> = look.front().iter().map(|c| c.0).collect();
            prop_assert_eq!(&front[..], &order[..row.len().min(LOOK)]);
            prop_assert!(look.front().iter().all(|c| (f64::from(c.1) - p[c.0 as usize]).abs() < 1e-5));
        }
    }
}
