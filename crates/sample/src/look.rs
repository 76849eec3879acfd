//! What a choice was made from, stage by stage: the traced twin of a sampler's chain.
//!
//! The chain that runs every day has no test for it: [`Sampler::sample_traced`](super::Sampler::sample_traced) is a second
//! function, and a test holds their tokens equal. It only reads: a look never lists, sorts or softens candidates.

use super::candidate::Candidate;
use super::peak::{BLOCK, block_max};

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
        self.push(StageLook::of(name, candidates).0);
    }

    /// Notes a stage that left a whole row, and returns the logarithm of the sum of its exponentials.
    pub(super) fn note_row(&mut self, name: &'static str, row: &[f32]) -> f64 {
        let (look, log_sum) = StageLook::of_row(name, row);
        self.push(look);
        log_sum
    }

    fn push(&mut self, look: StageLook) {
        let at = usize::from(self.len).min(STAGES - 1);
        self.stages[at] = look;
        self.len = at as u8 + 1;
    }

    /// Notes where the chosen token stands in the model's own row, whose exponentials sum to e^`log_sum`.
    pub(super) fn place(&mut self, row: &[f32], log_sum: f64, id: u32) {
        let Some((before, [chosen, behind @ ..])) = row.split_at_checked(id as usize) else { return };
        // Of equal ones the lower id ranks first. Numbers of the row's own width: compilers count eight at once.
        let equal_or_above = before.iter().map(|x| u32::from(x >= chosen)).sum::<u32>();
        self.rank = equal_or_above + behind.iter().map(|x| u32::from(x > chosen)).sum::<u32>();
        self.logprob = (f64::from(*chosen) - log_sum) as f32;
    }
}

impl StageLook {
    /// Entropy and front of candidates by their logits, and the logarithm of the sum of their exponentials.
    fn of(name: &'static str, candidates: impl Iterator<Item = (u32, f32)> + Clone) -> (StageLook, f64) {
        let finite = candidates.filter(|(_, logit)| logit.is_finite());
        let (mut front, mut sums) = (LookFront::new(), LookSums::default());
        finite.clone().for_each(|(id, logit)| front.meet(id, logit));
        let peak = front.peak();
        for (_, logit) in finite {
            let p = f64::from((logit - peak).exp());
            sums.left += 1;
            sums.sum += p;
            sums.weighted += p * f64::from(logit - peak);
        }
        front.look(name, &sums)
    }

    /// [`StageLook::of`] a whole row, of which most blocks hold nothing for the front, and whose exponentials are taken side
    /// by side: a vocabulary has 10^5 of them for every token.
    fn of_row(name: &'static str, row: &[f32]) -> (StageLook, f64) {
        let mut front = LookFront::new();
        for (i, block) in row.chunks(BLOCK).enumerate() {
            if block_max(block) > front.bar() {
                let logits = block.iter().enumerate().filter(|(_, x)| **x > f32::NEG_INFINITY);
                logits.for_each(|(j, &logit)| front.meet((i * BLOCK + j) as u32, logit));
            }
        }
        if front.peak() == f32::INFINITY {
            return StageLook::of(name, of_row(row));
        }
        let mut sums = LookSums::default();
        row.chunks(BLOCK).for_each(|block| sums.add(block, front.peak()));
        front.look(name, &sums)
    }

    /// The likeliest candidates.
    pub fn front(&self) -> &[(u32, f32)] {
        &self.top[..usize::from(self.count)]
    }
}

/// The likeliest candidates met so far, by logit; of equal ones the lower id first.
struct LookFront {
    top: [(u32, f32); LOOK],
    count: usize,
}

impl LookFront {
    fn new() -> LookFront {
        LookFront { top: [(0, f32::NEG_INFINITY); LOOK], count: 0 }
    }

    /// What a logit has to be above to come in.
    fn bar(&self) -> f32 {
        self.top[LOOK - 1].1
    }

    /// The highest logit; `-inf` where none was met.
    fn peak(&self) -> f32 {
        self.top[0].1
    }

    fn meet(&mut self, id: u32, logit: f32) {
        if self.count < LOOK || logit > self.bar() {
            let ahead = |c: &(u32, f32)| c.1 > logit || (c.1 == logit && c.0 < id);
            let at = self.top[..self.count].partition_point(ahead);
            self.count = (self.count + 1).min(LOOK);
            self.top[at..self.count].rotate_right(1);
            self.top[at] = (id, logit);
        }
    }

    /// The look at the candidates that these lead.
    fn look(self, name: &'static str, sums: &LookSums) -> (StageLook, f64) {
        let (peak, mut top) = (self.peak(), self.top);
        // H = ln Z - sum(p x), of probabilities p = e^x / Z.
        let bits = (sums.sum.ln() - sums.weighted / sums.sum).max(0.0) / std::f64::consts::LN_2;
        let bits = if sums.left > 0 { bits as f32 } else { 0.0 };
        for (_, x) in &mut top[..self.count] {
            *x = (f64::from((*x - peak).exp()) / sums.sum) as f32;
        }
        top[self.count..].fill((0, 0.0));
        let look = StageLook { name, left: sums.left, bits, count: self.count as u8, top };
        (look, f64::from(peak) + sums.sum.ln())
    }
}

/// Sums over candidates: how many, their exponentials, and these times their distance from the peak.
#[derive(Default)]
struct LookSums {
    left: u32,
    sum: f64,
    weighted: f64,
}

impl LookSums {
    /// Adds a block of logits, none above the finite `peak`; what is masked or not a number is out.
    fn add(&mut self, block: &[f32], peak: f32) {
        let (wide, rest) = block.as_chunks::<8>();
        let mut last = [f32::NEG_INFINITY; 8];
        last[..rest.len()].copy_from_slice(rest);
        let mut lanes = LookLanes::default();
        wide.iter().for_each(|chunk| lanes.add(chunk, peak));
        lanes.add(&last, peak);
        self.left += lanes.left.iter().sum::<u32>();
        self.sum += lanes.sum.iter().map(|x| f64::from(*x)).sum::<f64>();
        self.weighted += lanes.weighted.iter().map(|x| f64::from(*x)).sum::<f64>();
    }
}

/// The sums of one block, eight side by side: one running sum is a chain that compilers may not vectorize.
#[derive(Default)]
struct LookLanes {
    left: [u32; 8],
    sum: [f32; 8],
    weighted: [f32; 8],
}

impl LookLanes {
    #[inline(always)]
    fn add(&mut self, chunk: &[f32; 8], peak: f32) {
        for (i, &logit) in chunk.iter().enumerate() {
            let is_in = logit > f32::NEG_INFINITY;
            let x = if logit - peak > LEAST { logit - peak } else { LEAST };
            let p = if is_in { exp(x) } else { 0.0 };
            self.left[i] += u32::from(is_in);
            self.sum[i] += p;
            self.weighted[i] += p * x;
        }
    }
}

/// What exponentials are taken of at least, in the place of all below: near the least normal number of 32 bits, which no sum of
/// a row feels.
const LEAST: f32 = -87.0;

/// e^x of x from [`LEAST`] to 0, to 2 units in the last place, without a call or a branch: compilers take several side by side.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Added to a small number, it leaves the nearest integer in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    // ln 2 in two parts, of which the first times n is exact.
    let r = (x - n * 0.693_359_4) + n * 2.121_944_4e-4;
    let tail = 1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0))));
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    (1.0 + r * (1.0 + r * (0.5 + r * tail))) * power
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
            let (look, log_sum) = StageLook::of_row("model", &row);
            let p = crate::testing::softmax(&row);
            let bits: f64 = -p.iter().filter(|p| **p > 0.0).map(|p| p * p.log2()).sum::<f64>();
            // f32 exponentials, each off by a few 1e-7, weighted by logarithms of at most 24.
            prop_assert!((f64::from(look.bits) - bits).abs() < 1e-4, "{} {}", look.bits, bits);
            let order = crate::testing::all(&row);
            let front: Vec<u32> = look.front().iter().map(|c| c.0).collect();
            prop_assert_eq!(&front[..], &order[..row.len().min(LOOK)]);
            prop_assert!(look.front().iter().all(|c| (f64::from(c.1) - p[c.0 as usize]).abs() < 1e-5));
            let first = f64::from(row[order[0] as usize]) - log_sum;
            prop_assert!((first - p[order[0] as usize].ln()).abs() < 1e-5);
        }

        #[test]
        fn a_look_at_a_row_is_the_look_at_its_list(mut row in mild_row(1..700), out in 1usize..9, what in 0usize..4) {
            let odd = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 1.5][what];
            row.iter_mut().step_by(out).for_each(|x| *x = odd);
            let (fast, plain) = (StageLook::of_row("", &row).0, StageLook::of("", of_row(&row)).0);
            prop_assert_eq!((fast.left, fast.count), (plain.left, plain.count));
            prop_assert!((fast.bits - plain.bits).abs() < 1e-4, "{} {}", fast.bits, plain.bits);
            for (one, other) in fast.top.iter().zip(&plain.top) {
                prop_assert_eq!(one.0, other.0);
                prop_assert!((one.1 - other.1).abs() < 1e-5);
            }
        }

        #[test]
        fn a_rank_counts_those_ahead(row in mild_row(1..300), place in any::<prop::sample::Index>()) {
            let id = place.index(row.len()) as u32;
            let mut looks = ChoiceLooks::default();
            let log_sum = looks.note_row("model", &row);
            looks.place(&row, log_sum, id);
            let rank = crate::testing::all(&row).iter().position(|other| *other == id).unwrap();
            prop_assert_eq!(looks.rank as usize, rank);
        }

        #[test]
        fn an_exponential_is_that_of_double_precision(x in -87.0f32..=0.0) {
            let want = f64::from(x).exp();
            prop_assert!((f64::from(exp(x)) / want - 1.0).abs() < 2.5e-7, "{x}");
        }
    }
}
