//! Mixture of experts: the host chooses, and each row is multiplied with its own experts.

use crate::{
    machine::{CandleMachine, Compute},
    math::{activate, scaled, sigmoid, softmax},
};
use candle_core::{Result, Tensor};
use lamina_plan::{
    Batch, WeightId,
    op::{ExpertGroups, Experts, FewerExperts, GroupScore, RouterScore, Routing},
};

/// Keeps the division by the sum of chosen weights finite when all of them are 0.
const TINY: f32 = 1e-20;

impl Compute<Experts> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Experts) -> Result<()> {
        let (x, logits) = (self.get(b, o.x)?, self.get(b, o.logits)?);
        let scores = match o.routing.score {
            RouterScore::Softmax => softmax(&logits, None)?,
            RouterScore::SoftmaxOfChosen => logits,
            RouterScore::Sigmoid => sigmoid(&logits)?,
        };
        let choices = match self.maybe(o.select_bias)? {
            Some(bias) => scores.broadcast_add(bias)?,
            None => scores.clone(),
        };
        let (scores, choices) = (scores.to_vec2::<f32>()?, choices.to_vec2::<f32>()?);
        let one = |row: usize| {
            let chosen = chosen(&o.routing, &scores[row], &choices[row]);
            self.mixture(&x.narrow(0, row, 1)?, &chosen, o)
        };
        let rows = Tensor::cat(&(0..scores.len()).map(one).collect::<Result<Vec<_>>>()?, 0)?;
        self.set(o.out, rows)
    }
}

impl CandleMachine {
    /// The sum of the chosen experts for one row, best first.
    fn mixture(&self, x: &Tensor, chosen: &[(usize, f32)], o: &Experts) -> Result<Tensor> {
        let mut sum = x.zeros_like()?;
        for &(expert, weight) in chosen {
            let (before, after) = if o.routing.weight_input { (weight, 1.0) } else { (1.0, weight) };
            sum = (sum + scaled(&self.expert(expert, &scaled(x, before)?, o)?, after)?)?;
        }
        Ok(sum)
    }

    /// What expert `e` makes of one row.
    fn expert(&self, e: usize, x: &Tensor, o: &Experts) -> Result<Tensor> {
        let product = |w: WeightId, bias: Option<WeightId>, x: &Tensor| -> Result<Tensor> {
            let y = self.weight(w).matrix(e)?.mul(x)?;
            let width = y.dim(1)?;
            match self.maybe(bias)? {
                Some(bias) => y.broadcast_add(&bias.narrow(0, e * width, width)?),
                None => Ok(y),
            }
        };
        let gate = product(o.gate, o.biases.map(|b| b.gate), x)?;
        let up = product(o.up, o.biases.map(|b| b.up), x)?;
        product(o.down, o.biases.map(|b| b.down), &activate(o.act, &gate, Some(&up))?)
    }
}

/// Experts of a row with their weights, best first: by `choices`, weighted by `scores`.
fn chosen(routing: &Routing, scores: &[f32], choices: &[f32]) -> Vec<(usize, f32)> {
    let mut choices = choices.to_vec();
    if let Some(groups) = routing.groups {
        keep_groups(groups, &mut choices);
    }
    let mut chosen = first(&choices, routing.top_k);
    if let Some(fewer) = routing.fewer {
        drop_light(fewer, routing.score, scores, &mut chosen);
    }
    let mut weights: Vec<f32> = chosen.iter().map(|&e| scores[e]).collect();
    if routing.score == RouterScore::SoftmaxOfChosen {
        exponentials(&mut weights);
        share(&mut weights, 0.0);
    }
    if routing.renorm {
        share(&mut weights, TINY);
    }
    let ranks = routing.ranks.of(weights.len());
    let here = |place: &usize| ranks.contains(&rank(&weights, *place));
    (0..weights.len()).filter(here).map(|i| (chosen[i], weights[i] * routing.scale)).collect()
}

/// How many weights stand before that at `place`: larger ones, and equal ones that were chosen before.
fn rank(weights: &[f32], place: usize) -> usize {
    let weight = weights[place];
    weights.iter().enumerate().filter(|&(i, &w)| w > weight || w == weight && i < place).count()
}

/// Drops chosen experts of small weight.
fn drop_light(fewer: FewerExperts, score: RouterScore, scores: &[f32], chosen: &mut Vec<usize>) {
    let mut weights: Vec<f32> = chosen.iter().map(|&e| scores[e]).collect();
    if score == RouterScore::SoftmaxOfChosen {
        exponentials(&mut weights);
    }
    let bar = fewer.threshold * weights.iter().copied().fold(0.0, f32::max);
    let mut places = 0..weights.len();
    chosen.retain(|_| {
        places.next().is_some_and(|place| rank(&weights, place) < fewer.least || weights[place] >= bar)
    });
}

/// From logits to numbers in proportion to their softmax. The best comes first: its logit is the largest.
fn exponentials(weights: &mut [f32]) {
    let most = weights.first().copied().unwrap_or_default();
    weights.iter_mut().for_each(|w| *w = (*w - most).exp());
}

/// Divides by the sum.
fn share(weights: &mut [f32], tiny: f32) {
    let sum = weights.iter().sum::<f32>() + tiny;
    weights.iter_mut().for_each(|w| *w /= sum);
}

/// Puts the experts of all but the best groups out of reach.
fn keep_groups(groups: ExpertGroups, choices: &mut [f32]) {
    let size = choices.len() / groups.count;
    let best = match groups.by {
        GroupScore::Best => 1,
        GroupScore::BestTwo => 2,
    };
    let score = |group: &[f32]| first(group, best).iter().map(|&i| group[i]).sum::<f32>();
    let scores: Vec<f32> = choices.chunks_exact(size).map(score).collect();
    let kept = first(&scores, groups.keep);
    let out = choices.chunks_exact_mut(size).enumerate().filter(|(group, _)| !kept.contains(group));
    out.for_each(|(_, choices)| choices.fill(f32::NEG_INFINITY));
}

/// Places of the `n` largest numbers, largest first; of equal ones the lower place first.
fn first(numbers: &[f32], n: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..numbers.len()).collect();
    places.sort_by(|&a, &b| numbers[b].total_cmp(&numbers[a]));
    places.truncate(n);
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamina_plan::op::ExpertRanks;

    #[test]
    fn groups_keep_their_best_and_ties_go_to_the_lower_place() {
        let mut choices = [1.0, 4.0, 3.0, 3.0, 5.0, 0.0];
        keep_groups(ExpertGroups { count: 3, keep: 1, by: GroupScore::BestTwo }, &mut choices);
        assert_eq!(first(&choices, 3), [2, 3, 0]);
        assert_eq!(choices[4], f32::NEG_INFINITY);
    }

    #[test]
    fn weights_of_the_chosen_share_one() {
        let routing = Routing {
            experts: 3,
            top_k: 2,
            score: RouterScore::SoftmaxOfChosen,
            renorm: false,
            scale: 2.0,
            groups: None,
            weight_input: false,
            fewer: None,
            ranks: ExpertRanks::All,
        };
        let scores = [1000.0, -5.0, 1000.0];
        assert_eq!(chosen(&routing, &scores, &scores), [(0, 1.0), (2, 1.0)]);
    }
}
