//! Mixture of experts: what the chosen compute.

use super::{
    ReferenceMachine,
    math::{add, mul},
};
use lamina_plan::op::Experts;

impl ReferenceMachine {
    pub(super) fn experts_row(&self, x: &[f32], logits: &[f32], o: &Experts) -> Vec<f32> {
        let mut out = vec![0.0; x.len()];
        for (expert, weight) in o.routing.choose(logits, self.maybe(o.select_bias)) {
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
        let middle: Vec<f32> = gate.iter().zip(&up).map(|(&g, &u)| o.act.apply(g, Some(u))).collect();
        let mut out = mul(matrix(o.down), &middle);
        add(&mut out, o.biases.map(|b| bias(b.down, hidden)));
        out
    }
}
