//! Who is chosen of a mixture of experts, and with which weight.

use lamina_base::{
    formula::{ExpertGroups, GroupScore, RouterScore},
    scalar::{sigmoid, softmax, top},
};
use std::ops::Range;

/// From router logits to chosen experts and their weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Routing {
    /// Experts in the layer.
    pub experts: usize,
    /// Experts per token.
    pub top_k: usize,
    /// From router logits to scores.
    pub score: RouterScore,
    /// Chosen weights are divided by their sum.
    pub renorm: bool,
    /// Factor on the chosen weights.
    pub scale: f32,
    /// Experts are chosen inside the best groups only.
    pub groups: Option<ExpertGroups>,
    /// The weight scales the expert's input instead of its output.
    pub weight_input: bool,
    /// Chosen experts of small weight are dropped, before the others' weights are divided by their sum.
    pub fewer: Option<FewerExperts>,
    /// Which of the others this operator computes; their weights are the same wherever they are computed.
    pub ranks: ExpertRanks,
}

/// Drops chosen experts whose weight is small: an approximation (smart expert reduction of ik_llama.cpp).
///
/// The model's rule then goes by those that are kept: where it divides weights by their sum, that is their sum, and where
/// it does not, what is dropped is missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FewerExperts {
    /// Experts of largest weight that are kept in any case.
    pub least: usize,
    /// The others are kept from this share of the largest weight on.
    pub threshold: f32,
}

/// Chosen experts by the rank of their weight, the largest first; of equal ones the one that was chosen first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpertRanks {
    /// All of them.
    #[default]
    All,
    /// So many of the first.
    First(usize),
    /// Those behind so many of the first.
    Behind(usize),
}

impl ExpertRanks {
    /// The ranks among those of `count` experts.
    pub fn of(self, count: usize) -> Range<usize> {
        match self {
            ExpertRanks::All => 0..count,
            ExpertRanks::First(n) => 0..n.min(count),
            ExpertRanks::Behind(n) => n.min(count)..count,
        }
    }
}

/// Keeps the division by the sum of chosen weights finite when all of them are 0.
const TINY: f32 = 1e-20;

impl Routing {
    /// Chosen experts with their weights, best first: what the rule means, in plain loops. `select_bias` is added to the scores
    /// for the choice only.
    pub fn choose(&self, logits: &[f32], select_bias: Option<&[f32]>) -> Vec<(usize, f32)> {
        let scores = scores(self.score, logits);
        let mut choice = scores.clone();
        choice.iter_mut().zip(select_bias.unwrap_or(&[])).for_each(|(c, b)| *c += b);
        if let Some(groups) = self.groups {
            choice = inside_groups(groups, &choice);
        }
        let mut chosen = top(&choice, self.top_k);
        if let Some(fewer) = self.fewer {
            chosen = heavy(fewer, self.score, &scores, &chosen);
        }
        let mut weights: Vec<f32> = chosen.iter().map(|&e| scores[e]).collect();
        if self.score == RouterScore::SoftmaxOfChosen {
            softmax(&mut weights, None);
        }
        if self.renorm {
            let sum = weights.iter().sum::<f32>() + TINY;
            weights.iter_mut().for_each(|w| *w /= sum);
        }
        let ranks = self.ranks.of(chosen.len());
        let here = by_weight(&weights)[ranks].to_vec();
        let weighted = chosen.into_iter().zip(weights).enumerate();
        weighted.filter(|(place, _)| here.contains(place)).map(|(_, (e, w))| (e, w * self.scale)).collect()
    }
}

/// Places of `weights`, the largest first; of equal ones the first.
fn by_weight(weights: &[f32]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..weights.len()).collect();
    places.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    places
}

/// Those of `chosen` that are not dropped, in their order.
fn heavy(fewer: FewerExperts, score: RouterScore, scores: &[f32], chosen: &[usize]) -> Vec<usize> {
    let mut weights: Vec<f32> = chosen.iter().map(|&e| scores[e]).collect();
    if score == RouterScore::SoftmaxOfChosen {
        softmax(&mut weights, None);
    }
    let places = by_weight(&weights);
    let largest = places.first().map_or(0.0, |&place| weights[place]);
    let sure = &places[..fewer.least.min(places.len())];
    let kept = |place: &usize| sure.contains(place) || weights[*place] >= fewer.threshold * largest;
    (0..chosen.len()).filter(kept).map(|place| chosen[place]).collect()
}

fn scores(score: RouterScore, logits: &[f32]) -> Vec<f32> {
    let mut scores = logits.to_vec();
    match score {
        RouterScore::Softmax => softmax(&mut scores, None),
        RouterScore::SoftmaxOfChosen => {}
        RouterScore::Sigmoid => scores.iter_mut().for_each(|s| *s = sigmoid(*s)),
    }
    scores
}

/// `choice` with everything outside the best groups out of reach.
fn inside_groups(groups: ExpertGroups, choice: &[f32]) -> Vec<f32> {
    let size = choice.len() / groups.count;
    let score = |group: &[f32]| {
        let best = match groups.by {
            GroupScore::Best => 1,
            GroupScore::BestTwo => 2,
        };
        top(group, best).into_iter().map(|i| group[i]).sum::<f32>()
    };
    let kept = top(&choice.chunks_exact(size).map(score).collect::<Vec<_>>(), groups.keep);
    let inside = |(e, &c): (usize, &f32)| if kept.contains(&(e / size)) { c } else { f32::NEG_INFINITY };
    choice.iter().enumerate().map(inside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routing(score: RouterScore, renorm: bool, groups: Option<ExpertGroups>) -> Routing {
        let (fewer, ranks) = (None, ExpertRanks::All);
        Routing { experts: 4, top_k: 2, score, renorm, scale: 1.0, groups, weight_input: false, fewer, ranks }
    }

    fn chosen(routing: &Routing, bias: Option<&[f32]>) -> Vec<usize> {
        routing.choose(&[4.0, 1.0, 2.0, 3.0], bias).into_iter().map(|(e, _)| e).collect()
    }

    #[test]
    fn a_bias_changes_the_choice_and_not_the_weight() {
        let m = routing(RouterScore::Sigmoid, false, None);
        let routed = m.choose(&[4.0, 1.0, 2.0, 3.0], Some(&[0.0, 9.0, 0.0, 0.0]));
        assert_eq!(routed, [(1, sigmoid(1.0)), (0, sigmoid(4.0))]);
    }

    #[test]
    fn groups_are_scored_by_their_best_or_by_two() {
        let groups = |by| Some(ExpertGroups { count: 2, keep: 1, by });
        assert_eq!(chosen(&routing(RouterScore::Softmax, true, groups(GroupScore::Best)), None), [0, 1]);
        // Logits 1 and 2, then 2 and 3, by a bias on the first group's best.
        let bias = [-9.0, 0.0, 0.0, 0.0];
        assert_eq!(
            chosen(&routing(RouterScore::Sigmoid, true, groups(GroupScore::BestTwo)), Some(&bias)),
            [3, 2]
        );
    }

    #[test]
    fn softmax_of_chosen_equals_renormed_softmax() {
        let a = routing(RouterScore::SoftmaxOfChosen, false, None).choose(&[4.0, 1.0, 2.0, 3.0], None);
        let b = routing(RouterScore::Softmax, true, None).choose(&[4.0, 1.0, 2.0, 3.0], None);
        assert!(a.iter().zip(&b).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-6));
    }

    #[test]
    fn weights_of_fewer_experts_are_those_of_the_models_rule() {
        let logits = [4.0_f32, 1.0, 2.0, 3.0];
        let fewer = |least, threshold| Some(FewerExperts { least, threshold });
        let of = |score, renorm, fewer| {
            let rule = Routing { top_k: 4, fewer, ..routing(score, renorm, None) };
            rule.choose(&logits, None)
        };
        let softmax = |e: usize| logits[e].exp() / logits.iter().map(|l| l.exp()).sum::<f32>();
        // The largest weight has e times that of the next.
        let two = of(RouterScore::Softmax, false, fewer(1, 0.3));
        assert!(
            two.iter().map(|r| r.0).eq([0, 3]) && two.iter().all(|(e, w)| (w - softmax(*e)).abs() < 1e-6)
        );
        let three = of(RouterScore::Softmax, true, fewer(3, 0.3));
        assert!(
            three.iter().map(|r| r.0).eq([0, 3, 2])
                && (three.iter().map(|r| r.1).sum::<f32>() - 1.0).abs() < 1e-6
        );
        assert_eq!(of(RouterScore::SoftmaxOfChosen, false, fewer(1, 1.0)), [(0, 1.0)]);
        assert_eq!(of(RouterScore::Sigmoid, true, fewer(1, 0.0)), of(RouterScore::Sigmoid, true, None));
    }

    #[test]
    fn ranks_go_by_weight_and_both_parts_are_the_whole() {
        let whole = Routing { top_k: 3, ..routing(RouterScore::Sigmoid, true, None) };
        let part =
            |ranks| Routing { ranks, ..whole }.choose(&[4.0, 1.0, 2.0, 3.0], Some(&[0.0, 9.0, 0.0, 0.0]));
        let all = part(ExpertRanks::All);
        assert!(all.iter().map(|r| r.0).eq([1, 0, 3]));
        // The bias has chosen expert 1 first, but its weight is the least.
        assert_eq!(part(ExpertRanks::First(2)), all[1..]);
        assert_eq!(part(ExpertRanks::Behind(2)), all[..1]);
        assert_eq!(part(ExpertRanks::Behind(3)), []);
    }
}
