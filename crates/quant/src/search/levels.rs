//! One scale and a fixed set of levels: x is about scale * level.

use super::{Normal, clamp, extreme, inverse, pick, round, sum};
use crate::le::F16Le;

/// A set of levels to which scaled values are rounded.
pub(crate) trait Levels {
    /// Values that the element of the largest magnitude may be scaled to; the search tries each.
    const TARGETS: &'static [f32];

    /// The level nearest to `y`.
    fn nearest(y: f32) -> f32;
}

/// The integers `LOW..=HIGH`.
pub(crate) struct Integers<const LOW: i32, const HIGH: i32>;

/// Targets at both ends, from a little inside to clipping the largest element: with importance, it may be one that
/// matters little. Trying only the lower end costs 3 % of the error on IQ4_NL, and a tenth of the width 2 % on all.
pub(crate) const fn both_ends(low: f32, high: f32, step: f32) -> [f32; 24] {
    let mut targets = [0.0; 24];
    let mut k = 0;
    while k < 24 {
        targets[k] = if k < 14 { low + step * (4.0 - k as f32) } else { high + step * (k as f32 - 17.0) };
        k += 1;
    }
    targets
}

impl<const LOW: i32, const HIGH: i32> Levels for Integers<LOW, HIGH> {
    const TARGETS: &'static [f32] = &both_ends(LOW as f32, HIGH as f32, 0.2);

    #[inline(always)]
    fn nearest(y: f32) -> f32 {
        round(clamp(y, LOW as f32, HIGH as f32))
    }
}

/// The scale that leaves the smallest weighted error over the targets of `L`; 0 for a sub-block of zeros.
///
/// With the levels v chosen, the error is smallest at scale = sum(wxv) / sum(wvv), and what it takes away from
/// sum(wxx) is sum(wxv)^2 / sum(wvv).
pub(crate) fn fit_scale<const N: usize, L: Levels>(x: &[f32; N], w: &[f32; N]) -> f32 {
    let per_extreme = inverse(extreme(x));
    let (mut best, mut scale) = (0.0, 0.0);
    let mut attempt = |scale: &mut f32, inverse: f32| {
        let [xv, vv] = products::<N, L>(x, w, inverse);
        if xv * xv > best * vv {
            (best, *scale) = (xv * xv / vv, xv / vv);
        }
    };
    for target in L::TARGETS {
        attempt(&mut scale, target * per_extreme);
    }
    for _ in 0..2 {
        let polished = inverse(scale);
        attempt(&mut scale, polished);
    }
    scale
}

#[inline(always)]
fn products<const N: usize, L: Levels>(x: &[f32; N], w: &[f32; N], inverse: f32) -> [f32; 2] {
    sum::<N, 2>(|i| {
        let v = L::nearest(x[i] * inverse);
        let wv = w[i] * v;
        [wv * x[i], wv * v]
    })
}

/// Weighted squared error of `x` rounded to levels times `scale`.
fn error<const N: usize, L: Levels>(x: &[f32; N], w: &[f32; N], scale: f32) -> f32 {
    let inverse = inverse(scale);
    let [e] = sum::<N, 1>(|i| {
        let e = x[i] - scale * L::nearest(x[i] * inverse);
        [w[i] * e * e]
    });
    e
}

/// A block of `S` sub-blocks, each with an integer scale: x is about d * scale * level.
pub(crate) struct ScaledBlock<const S: usize> {
    /// Scale of the scales.
    pub d: F16Le,
    /// Integer scales.
    pub scales: [i8; S],
    /// The level of each element.
    pub levels: [f32; 256],
}

impl<const S: usize> ScaledBlock<S> {
    /// Searches sub-blocks of `N` elements; the largest sub-scale becomes `low`, which is negative, and none is
    /// beyond `high`. `None` for a block of zeros.
    pub fn search<const N: usize, L: Levels>(
        x: &[f32; 256],
        importance: Option<&[f32; 256]>,
        low: i32,
        high: i32,
    ) -> Option<Self> {
        const { assert!(S * N == 256) };
        let block = Normal::new(x, importance)?;
        let (xs, ws) = (block.x.as_chunks::<N>().0, block.w.as_chunks::<N>().0);
        let ideal: [f32; S] = std::array::from_fn(|j| fit_scale::<N, L>(&xs[j], &ws[j]));
        let (d, step) = block.store_step(extreme(&ideal), low as f32);
        let per_step = inverse(step);
        let mut found = ScaledBlock { d, scales: [0; S], levels: [0.0; 256] };
        for j in 0..S {
            let scale =
                pick(ideal[j] * per_step, low, high, |s| error::<N, L>(&xs[j], &ws[j], step * s as f32));
            found.scales[j] = scale as i8;
        }
        found.refit::<N, L>(&block, step);
        Some(found)
    }

    /// The best `d` for these scales and the levels that they choose, and the levels that it chooses.
    fn refit<const N: usize, L: Levels>(&mut self, block: &Normal<256>, step: f32) {
        self.choose::<N, L>(&block.x, step);
        let before = self.error(block, step, N);
        let [xv, vv] = sum::<256, 2>(|i| {
            let v = f32::from(self.scales[i / N]) * self.levels[i];
            [block.w[i] * block.x[i] * v, block.w[i] * v * v]
        });
        let (d, step) = block.store(xv * inverse(vv));
        let mut other = ScaledBlock { d, ..*self };
        other.choose::<N, L>(&block.x, step);
        if other.error(block, step, N) < before {
            *self = other;
        }
    }

    fn choose<const N: usize, L: Levels>(&mut self, x: &[f32; 256], step: f32) {
        let sub_blocks = self.levels.as_chunks_mut::<N>().0.iter_mut().zip(x.as_chunks::<N>().0);
        for ((levels, x), scale) in sub_blocks.zip(self.scales) {
            let inverse = inverse(step * f32::from(scale));
            levels.iter_mut().zip(x).for_each(|(v, x)| *v = L::nearest(x * inverse));
        }
    }

    fn error(&self, block: &Normal<256>, step: f32, n: usize) -> f32 {
        let [e] = sum::<256, 1>(|i| {
            let e = block.x[i] - step * f32::from(self.scales[i / n]) * self.levels[i];
            [block.w[i] * e * e]
        });
        e
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slow twin: the smallest error of 20000 scales, evenly spaced.
    fn least_error<L: Levels>(x: &[f32; 32], w: &[f32; 32], largest: f32) -> f32 {
        let scales = (1..=10_000).flat_map(|k| [1.0, -1.0].map(|sign| sign * largest * k as f32 * 1e-4));
        scales.map(|s| error::<32, L>(x, w, s)).fold(f32::MAX, f32::min)
    }

    #[test]
    fn the_search_comes_near_the_best_of_all_scales() {
        let (mut found, mut least) = (0.0, 0.0);
        for seed in 0..40u32 {
            let noise = |i: usize, salt: u32| {
                let r = (seed * 64 + i as u32 + salt)
                    .wrapping_mul(0x9E37_79B9)
                    .rotate_left(13)
                    .wrapping_mul(0x85EB_CA6B);
                (r >> 8) as f32 / (1 << 23) as f32 - 1.0
            };
            let x: [f32; 32] = std::array::from_fn(|i| noise(i, 0).powi(3));
            let w = std::array::from_fn(|i| 1.0 + noise(i, 9999));
            found += error::<32, Integers<-8, 7>>(&x, &w, fit_scale::<32, Integers<-8, 7>>(&x, &w));
            least += least_error::<Integers<-8, 7>>(&x, &w, 0.5);
        }
        // Fine differences of scale decide single roundings; the search sees 26 scales of them.
        assert!(found < 1.1 * least, "{found} found, {least} possible");
    }

    #[test]
    fn zeros_have_no_scale() {
        assert_eq!(fit_scale::<16, Integers<-4, 3>>(&[0.0; 16], &[1.0; 16]), 0.0);
    }
}
