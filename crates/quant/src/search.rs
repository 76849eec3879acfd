//! Searches for scales that keep the weighted squared error of a block small.
//!
//! Every encoder that searches works in two steps: an ideal scale for each sub-block, found by trying a range of
//! roundings and solving the least-squares problem for each, and then the integer scales that the block can store,
//! chosen by the error that they leave. The method is the one that llama.cpp made standard for K-quants; the second
//! step (measuring the neighbours of the rounded scale) is what goes beyond it.

mod affine;
mod codebook;
mod levels;
mod magnitudes;
mod shifts;

pub(crate) use affine::{AffineBlock, MinimumAndSteps};
pub(crate) use codebook::Codebook;
pub(crate) use levels::{Integers, Levels, ScaledBlock, both_ends, fit_scale};
pub(crate) use magnitudes::{MagnitudeBlock, Magnitudes, Signs};
pub(crate) use shifts::{SHIFT, Shifts};

use crate::le::F16Le;

/// Below this magnitude a block is zero: the smallest half that a scale can be is 2^-24.
const NEGLIGIBLE: f32 = 1.0 / (1 << 30) as f32;

/// A block brought to magnitude 1 by a power of two, so that squares neither overflow nor vanish, with the weight of
/// each squared error.
pub(crate) struct Normal<const N: usize> {
    /// Values divided by `unit`; the largest magnitude lies in [1, 4).
    pub x: [f32; N],
    /// Weights, all positive.
    pub w: [f32; N],
    /// The power of two that was divided out.
    pub unit: f32,
}

impl<const N: usize> Normal<N> {
    /// `None` for a block that no half-precision scale can tell from zero.
    pub fn new(x: &[f32; N], importance: Option<&[f32; N]>) -> Option<Self> {
        let largest = largest(x);
        if largest < NEGLIGIBLE {
            return None;
        }
        // The exponent is kept below 127 so that 1 / unit is a normal number.
        let unit = f32::from_bits((largest.to_bits() & 0x7F80_0000).min(253 << 23));
        let x = x.map(|v| v * (1.0 / unit));
        let w = weights(&x, importance);
        Some(Normal { x, w, unit })
    }

    /// The scale `s` of the normalized values as stored, and its value in their unit.
    pub fn store(&self, s: f32) -> (F16Le, f32) {
        let half = F16Le::finite(s * self.unit);
        (half, half.to_f32() * (1.0 / self.unit))
    }

    /// As [`Normal::store`], for a step of which `levels` multiples must reach `reach`. Where halves are coarse,
    /// rounding the step down would cut off the largest sub-scales, and rounding it to zero the whole block.
    pub fn store_step(&self, reach: f32, levels: f32) -> (F16Le, f32) {
        let (half, value) = self.store(reach / levels);
        if value.abs() * (levels.abs() + 0.5) >= reach.abs() || half.to_f32().abs() == F16Le::MAX.to_f32() {
            return (half, value);
        }
        let up = F16Le::from_bits(half.to_bits() + 1);
        (up, up.to_f32() * (1.0 / self.unit))
    }
}

/// Large values matter a little more than small ones, as in llama.cpp: importance times sqrt(2 mean square + x^2).
/// The floor lets columns of importance zero follow the rest instead of leaving a sub-block without any weight.
fn weights<const N: usize>(x: &[f32; N], importance: Option<&[f32; N]>) -> [f32; N] {
    let [square] = sum::<N, 1>(|i| [x[i] * x[i]]);
    let mean = 2.0 * square / N as f32;
    let mut w = x.map(|v| (mean + v * v).sqrt());
    if let Some(importance) = importance {
        let top = largest(importance);
        let inverse = if top > f32::MIN_POSITIVE { 1.0 / top } else { 0.0 };
        w.iter_mut().zip(importance).for_each(|(w, i)| *w *= (i * inverse).max(1e-6));
    }
    w
}

/// Largest magnitude.
pub(crate) fn largest(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |m, v| if v.abs() > m { v.abs() } else { m })
}

/// The first value of the largest magnitude; `x` is not empty.
pub(crate) fn extreme(x: &[f32]) -> f32 {
    x.iter().fold(x[0], |m, &v| if v.abs() > m.abs() { v } else { m })
}

/// 1 / s, or 0 where that is no finite number: then every code is the one nearest to zero.
pub(crate) fn inverse(s: f32) -> f32 {
    let inverse = 1.0 / s;
    if inverse.is_finite() { inverse } else { 0.0 }
}

/// Rounds to the nearest integer, ties to even, for |v| < 2^22. Adding and subtracting 1.5 * 2^23 is vectorized on
/// every CPU, `f32::round_ties_even` only with SSE4.1.
#[inline(always)]
pub(crate) fn round(v: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0;
    (v + MAGIC) - MAGIC
}

/// Rounds to the nearest integer, halves away from zero as C's `roundf` does, for |v| < 2^31.
#[inline(always)]
pub(crate) fn round_half_away(v: f32) -> f32 {
    let whole = v as i32 as f32;
    let rest = v - whole;
    whole + f32::from(rest >= 0.5) - f32::from(rest <= -0.5)
}

/// `v` between `low` and `high`; `low` for NaN. Two instructions, where `f32::clamp` takes care of NaN with more.
#[inline(always)]
pub(crate) fn clamp(v: f32, low: f32, high: f32) -> f32 {
    let v = if v > low { v } else { low };
    if v < high { v } else { high }
}

/// Sums of `K` terms over `N` elements in eight lanes: a fixed order that compilers can vectorize.
#[inline(always)]
pub(crate) fn sum<const N: usize, const K: usize>(mut terms: impl FnMut(usize) -> [f32; K]) -> [f32; K] {
    let mut lanes = [[0.0; K]; 8];
    for i in (0..N).step_by(8) {
        for (l, lane) in lanes.iter_mut().enumerate() {
            lane.iter_mut().zip(terms(i + l)).for_each(|(sum, t)| *sum += t);
        }
    }
    let add = |a: [f32; K], b: [f32; K]| std::array::from_fn(|k| a[k] + b[k]);
    let [a, b, c, d, e, f, g, h] = lanes;
    add(add(add(a, e), add(b, f)), add(add(c, g), add(d, h)))
}

/// The integer in `low..=high`, next to `ideal`, that leaves the smallest error.
pub(crate) fn pick(ideal: f32, low: i32, high: i32, mut error: impl FnMut(i32) -> f32) -> i32 {
    let center = (ideal.round_ties_even() as i32).clamp(low, high);
    let mut best = (center, error(center));
    for near in [center - 1, center + 1] {
        if (low..=high).contains(&near) {
            let e = error(near);
            if e < best.1 {
                best = (near, e);
            }
        }
    }
    best.0
}
