//! What the samplers' tests share.

use proptest::prelude::*;
use std::ops::Range;

use super::candidates::Candidates;
use super::chain::Shape;
use super::peak::Peak;
use super::stream::Stream;

/// Rows of logits with ties, masked tokens, tiny and huge values; at least one logit is finite.
pub fn row(len: Range<usize>) -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![
        6 => -12f32..12.0,
        2 => (-3i8..4).prop_map(f32::from),
        1 => Just(f32::NEG_INFINITY),
        1 => prop_oneof![Just(3e38f32), Just(-3e38), Just(1e-38), Just(-0.0)],
    ];
    (prop::collection::vec(logit, len), any::<prop::sample::Index>(), -5f32..5.0).prop_map(
        |(mut row, at, x)| {
            let at = at.index(row.len());
            row[at] = if row[at].is_finite() { row[at] } else { x };
            row
        },
    )
}

/// Rows without the extremes, for tests that compute in plain f64.
pub fn mild_row(len: Range<usize>) -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(prop_oneof![3 => -12f32..12.0, 1 => (-3i8..4).prop_map(f32::from)], len)
}

/// Runs `f` on the candidates of a row.
pub fn with<T>(row: &[f32], min_keep: usize, f: impl FnOnce(&mut Candidates) -> T) -> T {
    let peak = Peak::of(row).unwrap();
    f(&mut Candidates::new(row, peak, &mut Vec::new(), min_keep))
}

/// Ids and probabilities that `shape` leaves, by rank.
pub fn shaped(shape: &mut dyn Shape, row: &[f32], min_keep: usize) -> Vec<(u32, f32)> {
    with(row, min_keep, |c| {
        shape.apply(c, &mut Stream::new(1, 0));
        c.sort();
        c.softmax().iter().map(|c| (c.id, c.p)).collect()
    })
}

/// Ids that `shape` leaves, by rank.
pub fn kept(shape: &mut dyn Shape, row: &[f32], min_keep: usize) -> Vec<u32> {
    shaped(shape, row, min_keep).into_iter().map(|c| c.0).collect()
}

/// Every id that is not masked, by rank.
pub fn all(row: &[f32]) -> Vec<u32> {
    with(row, 0, |c| c.sort().iter().map(|c| c.id).collect())
}

/// Logits of the given probabilities.
pub fn logits(probabilities: &[f32]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln()).collect()
}

/// Probabilities of a row in f64.
pub fn softmax(row: &[f32]) -> Vec<f64> {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exp: Vec<f64> = row.iter().map(|&x| (f64::from(x) - f64::from(max)).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.into_iter().map(|x| x / sum).collect()
}
