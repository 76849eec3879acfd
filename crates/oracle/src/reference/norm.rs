//! Norms over a row or over pieces of it.

use super::ReferenceMachine;
use lamina_plan::op::{NormKind, NormOp};

/// `x` normed; `weight` and `bias` are as long as `x`.
pub fn norm(op: &NormOp, x: &[f32], weight: Option<&[f32]>, bias: Option<&[f32]>) -> Vec<f32> {
    let n = x.len() as f64;
    let mean = match op.kind {
        NormKind::Rms => 0.0,
        NormKind::Layer => x.iter().map(|&v| f64::from(v)).sum::<f64>() / n,
    };
    let variance = x.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n;
    let scale = (variance + f64::from(op.eps)).sqrt().recip();
    let number = |(i, &v): (usize, &f32)| {
        let unit = ((f64::from(v) - mean) * scale) as f32;
        unit * weight.map_or(1.0, |w| w[i]) + bias.map_or(0.0, |b| b[i])
    };
    x.iter().enumerate().map(number).collect()
}

impl ReferenceMachine {
    /// Norm of each of `pieces` equal pieces of `x`. Weight and bias have a row for each piece, or one for all.
    pub(super) fn norm_pieces(&self, op: &NormOp, x: &[f32], pieces: usize, own_weight: bool) -> Vec<f32> {
        let width = x.len() / pieces;
        let piece = |(i, part)| {
            let at = if own_weight { i * width } else { 0 };
            let of = |w| self.maybe(w).map(|w| &w[at..at + width]);
            norm(op, part, of(op.weight), of(op.bias))
        };
        x.chunks_exact(width).enumerate().flat_map(piece).collect()
    }
}
