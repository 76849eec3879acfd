//! Groups of values as a scale times signed points of a codebook of magnitudes.

use super::{Codebook, Normal, inverse, pick};
use crate::le::F16Le;

/// Which signs a format can store.
#[derive(Clone, Copy)]
pub(crate) enum Signs {
    /// One bit per element.
    Free,
    /// Seven bits for eight elements: an even number of them is negative.
    Even,
}

/// A format of magnitudes from a codebook: x is about d * unit * (2 scale + 1) * sign * point.
pub(crate) struct Magnitudes<const D: usize> {
    /// The points.
    pub codebook: Codebook<D>,
    /// Factor of the format.
    pub unit: f32,
    /// Signs that it can store.
    pub signs: Signs,
}

/// A block as a format of magnitudes stores it: `S` groups of a 4-bit scale, `P` points.
pub(crate) struct MagnitudeBlock<const S: usize, const P: usize> {
    /// Scale of the scales.
    pub d: F16Le,
    /// Scales 0 to 15.
    pub scales: [u8; S],
    /// Indices of the points.
    pub points: [u16; P],
    /// Signs of eight elements each; a set bit is negative.
    pub signs: [u8; 32],
}

impl<const D: usize> Magnitudes<D> {
    /// Searches groups of `G` elements. `None` for a block of zeros.
    pub fn search<const G: usize, const S: usize, const P: usize>(
        &self,
        x: &[f32; 256],
        importance: Option<&[f32; 256]>,
    ) -> Option<MagnitudeBlock<S, P>> {
        const { assert!(S * G == 256 && P * D == 256) };
        let mut block = Normal::new(x, importance)?;
        let signs = self.split_signs(&mut block);
        let (xs, ws) = (block.x.as_chunks::<G>().0, block.w.as_chunks::<G>().0);
        let ideal: [f32; S] = std::array::from_fn(|j| self.fit(&xs[j], &ws[j]));
        let reach = ideal.iter().fold(0.0, |m: f32, s| m.max(*s));
        let (d, step) = block.store_step(reach, 31.0 * self.unit);
        let step = step * self.unit;
        let mut found = MagnitudeBlock { d, scales: [0; S], points: [0; P], signs };
        for j in 0..S {
            let near = (ideal[j] * inverse(step) - 1.0) / 2.0;
            let scale = pick(near, 0, 15, |s| self.error(&xs[j], &ws[j], step * (2 * s + 1) as f32));
            found.scales[j] = scale as u8;
            let inverse = inverse(step * (2 * scale + 1) as f32);
            let points = &mut found.points[j * (G / D)..][..G / D];
            for ((index, x), w) in points.iter_mut().zip(xs[j].as_chunks::<D>().0).zip(ws[j].as_chunks().0) {
                *index = self.codebook.nearest(&x.map(|v| v * inverse), w).0;
            }
        }
        found.d = self.refit(&block, &found).unwrap_or(d);
        Some(found)
    }

    /// Makes `block.x` magnitudes and returns the signs. Where their number must be even and is not, the element that
    /// matters least gets the wrong sign, and its magnitude becomes negative.
    fn split_signs(&self, block: &mut Normal<256>) -> [u8; 32] {
        let groups = block.x.as_chunks_mut::<8>().0.iter_mut().zip(block.w.as_chunks::<8>().0);
        let mut signs = [0; 32];
        for ((x, w), signs) in groups.zip(&mut signs) {
            *signs = x.iter().enumerate().fold(0u8, |s, (i, v)| s | u8::from(*v < 0.0) << i);
            *x = x.map(f32::abs);
            if matches!(self.signs, Signs::Even) && signs.count_ones() % 2 == 1 {
                let cost = |i: &usize| w[*i] * x[*i] * x[*i];
                let weakest = (0..8).min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(0);
                x[weakest] = -x[weakest];
                *signs ^= 1 << weakest;
            }
        }
        signs
    }

    /// The best scale of a group over several sizes of its largest element, from clipped to the largest level.
    fn fit(&self, x: &[f32], w: &[f32]) -> f32 {
        let largest = x.iter().fold(0.0, |m: f32, v| m.max(*v));
        let per_largest = inverse(largest) * self.codebook.top();
        let (mut best, mut scale) = (0.0, 0.0);
        for k in 0..14 {
            let inverse = per_largest * (0.8 + 0.06 * k as f32);
            let (mut xp, mut pp) = (0.0, 0.0);
            for (x, w) in x.as_chunks::<D>().0.iter().zip(w.as_chunks::<D>().0) {
                let p = self.codebook.point(self.codebook.nearest(&x.map(|v| v * inverse), w).0);
                for k in 0..D {
                    xp += w[k] * x[k] * p[k];
                    pp += w[k] * p[k] * p[k];
                }
            }
            if xp > 0.0 && xp * xp > best * pp {
                (best, scale) = (xp * xp / pp, xp / pp);
            }
        }
        scale
    }

    fn error(&self, x: &[f32], w: &[f32], scale: f32) -> f32 {
        let inverse = inverse(scale);
        let vectors = x.as_chunks::<D>().0.iter().zip(w.as_chunks::<D>().0);
        scale * scale * vectors.map(|(x, w)| self.codebook.nearest(&x.map(|v| v * inverse), w).1).sum::<f32>()
    }

    /// The least-squares `d` for the scales and points found.
    fn refit<const S: usize, const P: usize>(
        &self,
        block: &Normal<256>,
        found: &MagnitudeBlock<S, P>,
    ) -> Option<F16Le> {
        let (mut xv, mut vv) = (0.0, 0.0);
        for (i, index) in found.points.iter().enumerate() {
            let scale = self.unit * f32::from(2 * found.scales[i * S / P] + 1);
            for (k, p) in self.codebook.point(*index).into_iter().enumerate() {
                let (x, w, v) = (block.x[D * i + k], block.w[D * i + k], scale * p);
                xv += w * x * v;
                vv += w * v * v;
            }
        }
        let (d, value) = block.store(xv * inverse(vv));
        (value > 0.0).then_some(d)
    }
}
