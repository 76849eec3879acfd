//! Scale and minimum: x is about scale * code - min, with codes from 0.

use super::{Normal, clamp, inverse, pick, round, sum};
use crate::le::F16Le;

/// x is about `scale * code - min`.
#[derive(Clone, Copy)]
pub(crate) struct Affine {
    /// Step between codes, not negative.
    pub scale: f32,
    /// What code 0 stands below zero.
    pub min: f32,
}

/// What a format can store as its minimum.
#[derive(Clone, Copy)]
pub(crate) enum Minimum {
    /// Code 0 means zero or less: K-quants store the minimum without a sign.
    NotPositive,
    /// Code 0 means any value.
    Any,
}

/// The scale and minimum with the smallest weighted error over several roundings of codes `0..=top`.
///
/// For given codes q, least squares gives both in closed form, and what the pair takes away from sum(wxx) is
/// scale * sum(wqx) - min * sum(wx).
pub(crate) fn fit_affine<const N: usize>(x: &[f32; N], w: &[f32; N], top: f32, allowed: Minimum) -> Affine {
    let (low, high) = range(x);
    let low = if matches!(allowed, Minimum::NotPositive) { low.min(0.0) } else { low };
    let [total, wx] = sum::<N, 2>(|i| [w[i], w[i] * x[i]]);
    let mut best = Affine { scale: (high - low).max(0.0) / top, min: -low };
    let per_range = inverse(high - low);
    let mut gain = f32::MIN;
    // Codes are counted from the best minimum so far, not from the smallest value: 3 % less error on skewed rows.
    let mut attempt = |best: &mut Affine, per_step: f32| {
        let [q, qq, qx] = sum::<N, 3>(|i| {
            let q = code(x[i], per_step, best.min, top);
            let wq = w[i] * q;
            [wq, wq * q, wq * x[i]]
        });
        let fit = solve([total, wx, q, qq, qx], allowed);
        let this = fit.scale * qx - fit.min * wx;
        if this > gain && fit.scale > 0.0 {
            (*best, gain) = (fit, this);
        }
    };
    // From one unused code to two that are clipped. A wider range finds better sub-blocks of 4 bits, but in Q2_K their
    // large scales cost all others resolution.
    for k in -5..=10 {
        attempt(&mut best, (top + 0.2 * k as f32) * per_range);
    }
    for _ in 0..2 {
        let per_step = inverse(best.scale);
        attempt(&mut best, per_step);
    }
    best
}

fn solve([total, wx, q, qq, qx]: [f32; 5], allowed: Minimum) -> Affine {
    let through_zero = Affine { scale: qx * inverse(qq), min: 0.0 };
    let determinant = total * qq - q * q;
    // Codes that are nearly all the same say nothing about the scale: what is left is rounding noise.
    if determinant < 1e-5 * total * qq {
        return through_zero;
    }
    let free = Affine { scale: (total * qx - wx * q) / determinant, min: (q * qx - qq * wx) / determinant };
    match allowed {
        Minimum::NotPositive if free.min < 0.0 => through_zero,
        _ => free,
    }
}

/// Code of `x`.
#[inline(always)]
fn code(x: f32, inverse: f32, min: f32, top: f32) -> f32 {
    round(clamp((x + min) * inverse, 0.0, top))
}

fn error<const N: usize>(x: &[f32; N], w: &[f32; N], a: Affine, top: f32) -> f32 {
    let inverse = inverse(a.scale);
    let [e] = sum::<N, 1>(|i| {
        let e = x[i] + a.min - a.scale * code(x[i], inverse, a.min, top);
        [w[i] * e * e]
    });
    e
}

/// A block of 32 with one scale and one minimum of any sign: x is about d * code + m.
pub(crate) struct MinimumAndSteps {
    /// Scale.
    pub d: F16Le,
    /// Minimum.
    pub m: F16Le,
    /// Code of each element.
    pub codes: [u8; 32],
}

impl MinimumAndSteps {
    /// `top` steps from the smallest value to the largest; with importance, the best of several roundings.
    #[inline]
    pub fn of(x: &[f32; 32], importance: Option<&[f32; 32]>, top: u8) -> Self {
        match importance {
            None => Self::plain(x, top),
            Some(_) => Self::search(x, importance, top),
        }
    }

    #[inline]
    fn plain(x: &[f32; 32], top: u8) -> Self {
        let (low, high) = range(x);
        let d = (high - low) / f32::from(top);
        let per_step = inverse(d);
        let codes = x.map(|v| (((v - low) * per_step + 0.5) as u8).min(top));
        MinimumAndSteps { d: F16Le::finite(d), m: F16Le::finite(low), codes }
    }

    fn search(x: &[f32; 32], importance: Option<&[f32; 32]>, top: u8) -> Self {
        let Some(block) = Normal::new(x, importance) else { return Self::plain(&[0.0; 32], top) };
        let (low, _) = range(&block.x);
        let (m, low) = block.store(low);
        // Counted from the minimum, so that a block of large values close together keeps its digits in the sums.
        let above = block.x.map(|v| v - low);
        let fit = fit_affine(&above, &block.w, f32::from(top), Minimum::Any);
        let (d, step) = block.store(fit.scale);
        let m = if fit.min == 0.0 { m } else { block.store(low - fit.min).0 };
        let low = m.to_f32() * (1.0 / block.unit);
        let per_step = inverse(step);
        let codes = block.x.map(|v| code(v, per_step, -low, f32::from(top)) as u8);
        MinimumAndSteps { d, m, codes }
    }
}

/// Smallest and largest value.
#[inline(always)]
fn range<const N: usize>(x: &[f32; N]) -> (f32, f32) {
    let low = x.iter().fold(f32::MAX, |m, &v| if v < m { v } else { m });
    let high = x.iter().fold(f32::MIN, |m, &v| if v > m { v } else { m });
    (low, high)
}

/// A block of `S` sub-blocks with integer scales and minimums: x is about d * scale * code - dmin * min.
pub(crate) struct AffineBlock<const S: usize> {
    /// Scale of the scales.
    pub d: F16Le,
    /// Scale of the minimums.
    pub dmin: F16Le,
    /// Integer scales.
    pub scales: [u8; S],
    /// Integer minimums.
    pub mins: [u8; S],
    /// Code of each element.
    pub codes: [u8; 256],
}

impl<const S: usize> AffineBlock<S> {
    /// Searches sub-blocks of `N` elements with codes `0..=top_code` and scales `0..=top_scale`. `None` for a block
    /// of zeros.
    pub fn search<const N: usize>(
        x: &[f32; 256],
        importance: Option<&[f32; 256]>,
        top_code: u8,
        top_scale: u8,
    ) -> Option<Self> {
        const { assert!(S * N == 256) };
        let block = Normal::new(x, importance)?;
        let (xs, ws, top) = (block.x.as_chunks::<N>().0, block.w.as_chunks::<N>().0, f32::from(top_code));
        let ideal: [Affine; S] =
            std::array::from_fn(|j| fit_affine(&xs[j], &ws[j], top, Minimum::NotPositive));
        let reach = |part: fn(&Affine) -> f32| ideal.iter().map(part).fold(0.0, f32::max);
        let (d, step) = block.store_step(reach(|a| a.scale), f32::from(top_scale));
        let (dmin, min_step) = block.store_step(reach(|a| a.min), f32::from(top_scale));
        let grid = Grid { step, min_step, top, top_scale: i32::from(top_scale) };
        let mut found = AffineBlock { d, dmin, scales: [0; S], mins: [0; S], codes: [0; 256] };
        for j in 0..S {
            (found.scales[j], found.mins[j]) = grid.nearest(&xs[j], &ws[j], ideal[j]);
        }
        found.refit::<N>(&block, top);
        Some(found)
    }

    /// The best `d` and `dmin` for these integers and the codes that they choose, and the codes that those choose.
    fn refit<const N: usize>(&mut self, block: &Normal<256>, top: f32) {
        let before = self.choose::<N>(block, top);
        let parts = |i: usize| {
            (f32::from(self.scales[i / N]) * f32::from(self.codes[i]), f32::from(self.mins[i / N]))
        };
        let [aa, ab, bb, ax, bx] = sum::<256, 5>(|i| {
            let ((a, b), w, x) = (parts(i), block.w[i], block.x[i]);
            [w * a * a, w * a * b, w * b * b, w * a * x, w * b * x]
        });
        let per_determinant = inverse(aa * bb - ab * ab);
        if per_determinant <= 0.0 {
            return;
        }
        let (d, _) = block.store((ax * bb - bx * ab) * per_determinant);
        let (dmin, _) = block.store((ax * ab - bx * aa) * per_determinant);
        let mut other = AffineBlock { d, dmin, ..*self };
        if other.choose::<N>(block, top) < before {
            *self = other;
        }
    }

    /// Sets the codes for the scales as stored; returns the weighted error.
    fn choose<const N: usize>(&mut self, block: &Normal<256>, top: f32) -> f32 {
        let (step, min_step) =
            (self.d.to_f32() * (1.0 / block.unit), self.dmin.to_f32() * (1.0 / block.unit));
        let (xs, ws) = (block.x.as_chunks::<N>().0, block.w.as_chunks::<N>().0);
        let mut total = 0.0;
        for (j, codes) in self.codes.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            let a =
                Affine { scale: step * f32::from(self.scales[j]), min: min_step * f32::from(self.mins[j]) };
            let inverse = inverse(a.scale);
            codes.iter_mut().zip(&xs[j]).for_each(|(c, x)| *c = code(*x, inverse, a.min, top) as u8);
            total += error(&xs[j], &ws[j], a, top);
        }
        total
    }
}

/// The scales and minimums that a block can store.
struct Grid {
    step: f32,
    min_step: f32,
    top: f32,
    top_scale: i32,
}

impl Grid {
    /// The pair near `ideal` with the smallest error: first the scale, then the minimum that suits it.
    fn nearest<const N: usize>(&self, x: &[f32; N], w: &[f32; N], ideal: Affine) -> (u8, u8) {
        let at = |s: i32, m: i32| {
            error(x, w, Affine { scale: self.step * s as f32, min: self.min_step * m as f32 }, self.top)
        };
        let (s, m) = (ideal.scale * inverse(self.step), ideal.min * inverse(self.min_step));
        let nearest_min = (m.round_ties_even() as i32).clamp(0, self.top_scale);
        let scale = pick(s, 0, self.top_scale, |s| at(s, nearest_min));
        let min = pick(m, 0, self.top_scale, |m| at(scale, m));
        (scale as u8, min as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_on_a_grid_are_found() {
        for (scale, min) in [(0.25, 1.0), (0.03, 0.0), (1.0, 7.0)] {
            let x: [f32; 32] = std::array::from_fn(|i| scale * (i * 7 % 16) as f32 - min);
            let fit = fit_affine(&x, &[1.0; 32], 15.0, Minimum::NotPositive);
            assert!(
                (fit.scale - scale).abs() < 1e-5 && (fit.min - min).abs() < 1e-5,
                "{} {}",
                fit.scale,
                fit.min
            );
        }
    }

    #[test]
    fn constants_are_kept() {
        for v in [-3.0, 0.0, 3.0] {
            let fit = fit_affine(&[v; 16], &[1.0; 16], 3.0, Minimum::NotPositive);
            assert!(error(&[v; 16], &[1.0; 16], fit, 3.0) < 1e-9, "{v}: {} {}", fit.scale, fit.min);
        }
    }

    /// The slow twin tries a fine grid of scales and minimums.
    fn least_error(x: &[f32; 32], w: &[f32; 32]) -> f32 {
        let pairs = (1..300).flat_map(|s| (0..200).map(move |m| (s as f32 * 1e-3, m as f32 * 5e-3)));
        pairs.map(|(scale, min)| error(x, w, Affine { scale, min }, 15.0)).fold(f32::MAX, f32::min)
    }

    #[test]
    fn the_search_comes_near_the_best_of_all_pairs() {
        let (mut found, mut least) = (0.0, 0.0);
        for seed in 0..20 {
            let x = std::array::from_fn(|i| ((i * i * (37 + seed) % 101) as f32 / 50.0 - 0.7).powi(3));
            let w = std::array::from_fn(|i| 1.0 + (i * 13 % 7) as f32);
            found += error(&x, &w, fit_affine(&x, &w, 15.0, Minimum::NotPositive), 15.0);
            least += least_error(&x, &w);
        }
        // Fine differences of scale decide single roundings; the search sees 18 scales of them.
        assert!(found < 1.1 * least, "{found} found, {least} possible");
    }
}
