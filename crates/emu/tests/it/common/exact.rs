//! Numbers that pages hold exactly, and attention over them in float64.

use crate::common::draws::draws;
use lamina_plan::KvType;

/// Queries between -2 and 2, of 24 bits.
pub fn queries(n: usize) -> Vec<f32> {
    draws(1, 1 << 24).take(n).map(|v| (v as f32 / 4e6) - 2.0).collect()
}

/// Numbers that pages of a type hold as they are: every block has those at the ends of its range, so that its scale is a
/// power of two.
pub fn kept(kv_type: KvType, seed: u64, n: usize) -> Vec<f32> {
    let (steps, one) = if kv_type == KvType::Q8_0 { (127, 128.0) } else { (8, 8.0) };
    let ends = |i: usize, drawn: i64| match i % 16 {
        3 if steps == 8 => -8,
        3 => -127,
        11 => steps - i64::from(steps == 8),
        _ => drawn,
    };
    let drawn = draws(seed, 2 * steps as u64 - 1).map(|v| v as i64 - steps + 1);
    drawn.take(n).enumerate().map(|(i, drawn)| ends(i, drawn) as f32 / one).collect()
}

/// Row `i` of rows of `width` numbers, in float64.
pub fn row(of: &[f32], i: usize, width: usize) -> Vec<f64> {
    of[i * width..(i + 1) * width].iter().map(|v| f64::from(*v)).collect()
}

/// The mix of values by the softmax of the products of a query with keys.
pub fn attended(q: &[f64], keys: &[Vec<f64>], values: &[Vec<f64>], scale: f32) -> Vec<f64> {
    let score = |key: &Vec<f64>| q.iter().zip(key).map(|(a, b)| a * b).sum::<f64>() * f64::from(scale);
    let scores: Vec<f64> = keys.iter().map(score).collect();
    let most = scores.iter().fold(f64::MIN, |m, s| m.max(*s));
    let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mut out = vec![0.0; values[0].len()];
    for (weight, value) in weights.iter().zip(values) {
        out.iter_mut().zip(value).for_each(|(o, v)| *o += weight * v / sum);
    }
    out
}

/// The largest difference.
pub fn farthest(got: &[f32], want: &[f64]) -> f64 {
    got.iter().zip(want).map(|(g, w)| (f64::from(*g) - w).abs()).fold(0.0, f64::max)
}
