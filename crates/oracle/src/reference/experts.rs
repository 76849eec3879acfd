//! Mixture of experts: who is chosen with which weight, and what the chosen compute.

use super::{
    ReferenceMachine,
    math::{activate, add, mul, sigmoid, softmax, top},
};
use lamina_plan::op::{ExpertGroups, Experts, GroupScore, RouterScore, Routing};

/// Keeps the division by the sum of chosen weights finite when all of them are 0.
const TINY: f32 = 1e-20;

/// Chosen experts with their weights, best first.
pub fn route(routing: &Routing, logits: &[f32], select_bias: Option<&[f32]>) -> Vec<(usize, f32)> {
    let scores = scores(routing.score, logits);
    let mut choice = scores.clone();
    add(&mut choice, select_bias);
    if let Some(groups) = routing.groups {
        choice = inside_groups(groups, &choice);
    }
    let chosen = top(&choice, routing.top_k);
    let mut weights: Vec<f32> = chosen.iter().map(|&e| scores[e]).collect();
    if routing.score == RouterScore::SoftmaxOfChosen {
        softmax(&mut weights, None);
    }
    if routing.renorm {
        let sum = weights.iter().sum::<f32>() + TINY;
        weights.iter_mut().for_each(|w| *w /= sum);
    }
    chosen.into_iter().zip(weights.into_iter().map(|w| w * routing.scale)).collect()
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

impl ReferenceMachine {
    pub(super) fn experts_row(&self, x: &[f32], logits: &[f32], o: &Experts) -> Vec<f32> {
        let mut out = vec![0.0; x.len()];
        for (expert, weight) in route(&o.routing, logits, self.maybe(o.select_bias)) {
            let (before, after) = if o.routing.weight_input { (weight, 1.0) } else { (1.0, weight) };
            let input: Vec<f32> = x.iter().map(|v| v * before).collect();
            let value = self.expert(expert, &input, o);
            out.iter_mut().zip(value).for_each(|(o, v)| *o += after * v);
        }
        out
    }

    fn expert(&self, e: usize, x: &[f32], o: &Experts) -> Vec<f32> {
        let (inner, hidden) = (o.inner, x.len());
        let matrix = |w| &self.weight(w)[e * inner * hidden..][..inner * hidden];
        let bias = |w, n: usize| &self.weight(w)[e * n..][..n];
        let mut gate = mul(matrix(o.gate), x);
        let mut up = mul(matrix(o.up), x);
        add(&mut gate, o.biases.map(|b| bias(b.gate, inner)));
        add(&mut up, o.biases.map(|b| bias(b.up, inner)));
        let middle: Vec<f32> = gate.iter().zip(&up).map(|(&g, &u)| activate(o.act, g, Some(u))).collect();
        let mut out = mul(matrix(o.down), &middle);
        add(&mut out, o.biases.map(|b| bias(b.down, hidden)));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routing(score: RouterScore, renorm: bool, groups: Option<ExpertGroups>) -> Routing {
        Routing { experts: 4, top_k: 2, score, renorm, scale: 1.0, groups, weight_input: false }
    }

    fn chosen(routing: &Routing, bias: Option<&[f32]>) -> Vec<usize> {
        route(routing, &[4.0, 1.0, 2.0, 3.0], bias).into_iter().map(|(e, _)| e).collect()
    }

    #[test]
    fn a_bias_changes_the_choice_and_not_the_weight() {
        let m = routing(RouterScore::Sigmoid, false, None);
        let routed = route(&m, &[4.0, 1.0, 2.0, 3.0], Some(&[0.0, 9.0, 0.0, 0.0]));
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
        let a = route(&routing(RouterScore::SoftmaxOfChosen, false, None), &[4.0, 1.0, 2.0, 3.0], None);
        let b = route(&routing(RouterScore::Softmax, true, None), &[4.0, 1.0, 2.0, 3.0], None);
        assert!(a.iter().zip(&b).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-6));
    }
}
