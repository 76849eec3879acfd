//! Types by a budget: the smallest file whose distance from the model stays below a figure.
//!
//! How much each group of tensors costs is probed once, in one type of middle width, with all others as they are. For other types
//! the figure is scaled by the step of their grids: an error of half the step is a quarter of the divergence, which is quadratic
//! in it. That decides the order in which tensors are made coarser; what a choice really costs is measured, and the budget
//! that the order may spend is moved until the measured figure is as near below as it gets.

use crate::{
    draft::Draft,
    types::{TURNED, fitting, is_quantizable},
};
use lamina_base::DType::{self, *};

/// Types that are offered, from the finest.
pub const LADDER: &[DType] = &[Q8_0, Q6_K, Q5_K, Q4_K, Q3_K, Q2_K];
/// The one that groups are probed in.
const PROBE: usize = 3;
/// Groups at most: of more matrices, those of neighbouring layers with one purpose go together.
const MOST_GROUPS: usize = 96;
/// Times that the budget of the order is moved.
const ROUNDS: usize = 8;
/// Single steps that are tried at the end.
const STEPS: usize = 24;
/// A divergence of nothing: rounding hides what is below.
const LEAST: f64 = 1e-9;

/// Tensors that get one type.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeGroup {
    /// Their numbers in the draft.
    pub tensors: Vec<usize>,
    /// What the first is called, with how many there are beside it.
    pub name: String,
    /// For each type of the ladder: what its tensors become, and their bytes.
    offers: Vec<TypeOffer>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct TypeOffer {
    /// The type that is asked for.
    asked: DType,
    /// What rows of the first tensor's length become.
    dtype: DType,
    bytes: u64,
    bits: f64,
}

/// A choice: for each group the number of a type in the ladder.
pub type Levels = Vec<usize>;

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetChoice {
    /// The choice.
    pub levels: Levels,
    /// Its figure, as measured.
    pub kl: f64,
    /// What each group alone costs in the probe's type.
    pub probes: Vec<f64>,
    /// Types for all that were measured, from the finest to the first beyond the budget: bytes and figure.
    pub uniform: Vec<(DType, u64, f64)>,
    /// Choices that were measured, without the probes.
    pub measured: usize,
}

/// Asks for the figure of a choice; a group of which nothing is said stays as it is.
pub type Measure<'a, E> = &'a mut dyn FnMut(&[Option<usize>]) -> Result<f64, E>;

impl TypeGroup {
    /// The tensors of a draft that may be quantized.
    pub fn all(draft: &Draft) -> Vec<TypeGroup> {
        let may = |&i: &usize| is_quantizable(&draft.tensors[i]) && draft.tensors[i].name != TURNED;
        let tensors: Vec<usize> = (0..draft.tensors.len()).filter(may).collect();
        let mut ordered: Vec<(String, usize)> =
            tensors.iter().map(|&i| (purpose(&draft.tensors[i].name), i)).collect();
        let together = tensors.len().div_ceil(MOST_GROUPS).max(1);
        // In the order of the file inside a purpose.
        ordered.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut groups: Vec<TypeGroup> = ordered
            .chunk_by(|a, b| a.0 == b.0)
            .flat_map(|same| same.chunks(together))
            .map(|part| TypeGroup::of(draft, part.iter().map(|(_, i)| *i).collect()))
            .collect();
        groups.sort_by_key(|group| group.tensors.first().copied());
        groups
    }

    fn of(draft: &Draft, tensors: Vec<usize>) -> TypeGroup {
        let mut offers: Vec<TypeOffer> = vec![];
        for &level in LADDER {
            let one = |&i: &usize| {
                let (tensor, dtype) = (&draft.tensors[i], fitting(level, draft.tensors[i].cols()));
                (dtype, (tensor.elements() / dtype.block_len() * dtype.block_bytes()) as u64)
            };
            let bytes = tensors.iter().map(|i| one(i).1).sum();
            let dtype = tensors.first().map_or(level, |i| one(i).0);
            let offer = TypeOffer { asked: level, dtype, bytes, bits: f64::from(dtype.bits()) };
            // What rows of odd lengths get in place of a coarser type may be no smaller than what they had.
            let last = offers.last().copied().filter(|last| last.bytes <= offer.bytes);
            offers.push(last.unwrap_or(offer));
        }
        let first = tensors.first().map_or("", |&i| draft.tensors[i].name.as_str());
        let more = tensors.len().saturating_sub(1);
        let name = if more > 0 { format!("{first} and {more} more") } else { first.to_owned() };
        TypeGroup { tensors, name, offers }
    }

    /// Bytes of its tensors in a type of the ladder.
    pub fn bytes(&self, level: usize) -> u64 {
        self.offers[level].bytes
    }

    /// The type to ask for.
    pub fn asked(&self, level: usize) -> DType {
        self.offers[level].asked
    }

    /// What they become; rows of odd lengths get another type than the ladder's.
    pub fn dtype(&self, level: usize) -> DType {
        self.offers[level].dtype
    }

    /// What it is likely to cost, where its probe cost so much.
    fn cost(&self, probe: f64, level: usize) -> f64 {
        probe.max(LEAST) * 4f64.powf(self.offers[PROBE].bits - self.offers[level].bits)
    }
}

/// The name without its layer.
fn purpose(name: &str) -> String {
    name.split('.').filter(|part| part.parse::<usize>().is_err()).collect::<Vec<_>>().join(".")
}

/// The choice of the fewest bytes that is measured to cost no more than `budget`; none where the finest types cost more, with
/// their figure.
///
/// # Errors
/// Those of `measure`.
pub fn spend_budget<E>(
    groups: &[TypeGroup],
    budget: f64,
    measure: Measure<'_, E>,
) -> Result<Result<BudgetChoice, f64>, E> {
    let mut found = BudgetSearch { groups, budget, best: None, seen: vec![], measure };
    let mut uniform = vec![];
    for (level, &dtype) in LADDER.iter().enumerate() {
        let levels = vec![level; groups.len()];
        let kl = found.try_out(&levels)?;
        uniform.push((dtype, bytes(groups, &levels), kl));
        if kl > budget {
            break;
        }
    }
    if found.best.is_none() {
        return Ok(Err(uniform.first().map_or(f64::INFINITY, |u| u.2)));
    }
    let mut probes = vec![];
    for i in 0..groups.len() {
        let alone: Vec<_> = (0..groups.len()).map(|j| (i == j).then_some(PROBE)).collect();
        probes.push((found.measure)(&alone)?);
    }
    found.by_order(&probes)?;
    found.by_steps(&probes)?;
    let measured = found.seen.len();
    Ok(found.best.map_or(Err(f64::INFINITY), |(levels, kl)| {
        Ok(BudgetChoice { levels, kl, probes, uniform, measured })
    }))
}

fn bytes(groups: &[TypeGroup], levels: &[usize]) -> u64 {
    groups.iter().zip(levels).map(|(group, &level)| group.bytes(level)).sum()
}

struct BudgetSearch<'a, 'm, E> {
    groups: &'a [TypeGroup],
    budget: f64,
    best: Option<(Levels, f64)>,
    seen: Vec<(Levels, f64)>,
    measure: Measure<'m, E>,
}

impl<E> BudgetSearch<'_, '_, E> {
    /// The figure of a choice, which is the best where it is smaller than that and within the budget.
    fn try_out(&mut self, levels: &Levels) -> Result<f64, E> {
        if let Some((_, kl)) = self.seen.iter().find(|(seen, _)| seen == levels) {
            return Ok(*kl);
        }
        let asked: Vec<_> = levels.iter().copied().map(Some).collect();
        let kl = (self.measure)(&asked)?;
        self.seen.push((levels.clone(), kl));
        let size = bytes(self.groups, levels);
        let smaller = self.best.as_ref().is_none_or(|(best, _)| size < bytes(self.groups, best));
        if kl <= self.budget && smaller {
            self.best = Some((levels.clone(), kl));
        }
        Ok(kl)
    }

    /// Moves what the order may spend until the measured figure is as near below the budget as it gets.
    fn by_order(&mut self, probes: &[f64]) -> Result<(), E> {
        let (mut target, mut low, mut high) = (self.budget, None::<f64>, None::<f64>);
        for _ in 0..ROUNDS {
            let levels = ordered(self.groups, probes, target);
            match self.try_out(&levels)? <= self.budget {
                true => low = Some(target),
                false => high = Some(target),
            }
            target = match (low, high) {
                (Some(low), Some(high)) => (low * high).sqrt(),
                (Some(low), None) => 4.0 * low,
                (None, Some(high)) => high / 4.0,
                (None, None) => target,
            };
        }
        Ok(())
    }

    /// Tries single groups one type coarser, those first that save most for what they cost.
    fn by_steps(&mut self, probes: &[f64]) -> Result<(), E> {
        for _ in 0..STEPS {
            let Some((levels, _)) = self.best.clone() else { return Ok(()) };
            let untried = |step: &&TypeStep| {
                let mut next = levels.clone();
                next[step.group] = step.level;
                self.seen.iter().all(|(seen, _)| *seen != next)
            };
            let steps = steps(self.groups, probes, &levels);
            let Some(step) = steps.iter().filter(untried).max_by(|a, b| a.gain.total_cmp(&b.gain)) else {
                return Ok(());
            };
            let mut next = levels.clone();
            next[step.group] = step.level;
            self.try_out(&next)?;
        }
        Ok(())
    }
}

/// A group in a coarser type.
#[derive(Debug, Clone, Copy)]
struct TypeStep {
    group: usize,
    level: usize,
    cost: f64,
    /// Bytes for each unit of cost.
    gain: f64,
}

/// All steps to coarser types that save bytes.
fn steps(groups: &[TypeGroup], probes: &[f64], levels: &[usize]) -> Vec<TypeStep> {
    let mut steps = vec![];
    for (group, (of, (&probe, &now))) in groups.iter().zip(probes.iter().zip(levels)).enumerate() {
        for level in now + 1..LADDER.len() {
            let saved = of.bytes(now).saturating_sub(of.bytes(level));
            let cost = of.cost(probe, level) - of.cost(probe, now);
            if saved > 0 {
                steps.push(TypeStep { group, level, cost, gain: saved as f64 / cost.max(LEAST) });
            }
        }
    }
    steps
}

/// The choice that makes groups coarser in the order of what that saves for its cost, as long as all together are likely to cost no
/// more than `target`. Of equals the first in the file is taken.
fn ordered(groups: &[TypeGroup], probes: &[f64], target: f64) -> Levels {
    let mut levels = vec![0; groups.len()];
    let mut spent: f64 = groups.iter().zip(probes).map(|(group, &probe)| group.cost(probe, 0)).sum();
    loop {
        let mut best: Option<TypeStep> = None;
        for step in steps(groups, probes, &levels) {
            if spent + step.cost <= target && best.is_none_or(|best| step.gain > best.gain) {
                best = Some(step);
            }
        }
        let Some(step) = best else { return levels };
        levels[step.group] = step.level;
        spent += step.cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups of so many numbers, without a draft.
    fn groups(sizes: &[u64]) -> Vec<TypeGroup> {
        let offer = |size: u64, dtype: DType| TypeOffer {
            asked: dtype,
            dtype,
            bytes: (size as f64 * f64::from(dtype.bits()) / 8.0) as u64,
            bits: f64::from(dtype.bits()),
        };
        let group = |(i, &size): (usize, &u64)| TypeGroup {
            tensors: vec![i],
            name: format!("t{i}"),
            offers: LADDER.iter().map(|&dtype| offer(size, dtype)).collect(),
        };
        sizes.iter().enumerate().map(group).collect()
    }

    /// A model whose figure is the sum of what its groups cost, and more than the scaling says.
    fn figure(groups: &[TypeGroup], weights: &[f64], levels: &[Option<usize>]) -> f64 {
        let one = |((group, weight), level): ((&TypeGroup, &f64), &Option<usize>)| {
            level.map_or(0.0, |level| weight * 3.3f64.powf(-group.offers[level].bits))
        };
        groups.iter().zip(weights).zip(levels).map(one).sum()
    }

    /// Every choice that there is.
    fn smallest(groups: &[TypeGroup], weights: &[f64], budget: f64) -> Option<u64> {
        let all = LADDER.len().pow(groups.len() as u32);
        let levels = |mut n: usize| -> Levels {
            groups
                .iter()
                .map(|_| {
                    let level = n % LADDER.len();
                    n /= LADDER.len();
                    level
                })
                .collect()
        };
        let fits = |levels: &Levels| {
            figure(groups, weights, &levels.iter().copied().map(Some).collect::<Vec<_>>()) <= budget
        };
        (0..all).map(levels).filter(fits).map(|levels| bytes(groups, &levels)).min()
    }

    #[test]
    fn what_is_found_is_within_the_budget_and_near_the_smallest() {
        let (groups, weights) = (groups(&[4096, 8192, 4096, 65536, 1024]), [300.0, 2.0, 40.0, 9.0, 4000.0]);
        for budget in [0.2, 0.5, 2.0, 10.0] {
            let mut measure = |levels: &[Option<usize>]| Ok::<_, ()>(figure(&groups, &weights, levels));
            let found = spend_budget(&groups, budget, &mut measure).expect("measured").expect("within");
            let (size, least) = (bytes(&groups, &found.levels), smallest(&groups, &weights, budget));
            let asked: Vec<_> = found.levels.iter().copied().map(Some).collect();
            assert_eq!(found.kl, figure(&groups, &weights, &asked));
            assert!(found.kl <= budget, "{budget}: {found:?}");
            let uniform =
                found.uniform.iter().filter(|u| u.2 <= budget).map(|u| u.1).min().expect("the finest");
            assert!(size <= uniform, "{budget}: {size} of {uniform}");
            assert!(size as f64 <= 1.05 * least.expect("one") as f64, "{budget}: {size} of {least:?}");
            let again = spend_budget(&groups, budget, &mut measure).expect("measured").expect("within");
            assert_eq!(found, again, "the same each time");
        }
    }

    #[test]
    fn a_budget_that_nothing_keeps_says_what_the_finest_costs() {
        let groups = groups(&[4096]);
        let mut measure = |levels: &[Option<usize>]| Ok::<_, ()>(figure(&groups, &[300.0], levels));
        let kl = spend_budget(&groups, 1e-6, &mut measure).expect("measured").expect_err("too little");
        assert!(kl > 1e-6);
        let failing = spend_budget(&groups, 1.0, &mut |_| Err::<f64, _>("no text"));
        assert_eq!(failing.expect_err("told"), "no text");
    }

    #[test]
    fn layers_are_no_purpose() {
        assert_eq!(purpose("blk.12.ffn_down.weight"), "blk.ffn_down.weight");
        assert_eq!(purpose("output.weight"), "output.weight");
    }
}
