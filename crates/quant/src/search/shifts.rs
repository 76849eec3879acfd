//! Groups of values as a scale times ternary points that are shifted a little up or down.

use super::{Codebook, Normal, inverse, largest, pick};
use crate::le::F16Le;

/// How far the points are shifted: a fact of the IQ1 formats.
pub(crate) const SHIFT: f32 = 0.125;

/// A format of shifted points: x is about d * (2 scale + 1) * (point + shift).
pub(crate) struct Shifts {
    /// The points.
    pub codebook: Codebook<8>,
    /// Vectors that share the direction of the shift.
    pub together: usize,
}

/// A block of such a format: `S` groups of a 3-bit scale, 32 points.
pub(crate) struct ShiftedBlock<const S: usize> {
    /// Scale of the scales.
    pub d: F16Le,
    /// Scales 0 to 7.
    pub scales: [u8; S],
    /// The points and the directions of their shifts.
    pub points: [Shifted; 32],
}

/// A point and the direction of its shift.
#[derive(Clone, Copy, Default)]
pub(crate) struct Shifted {
    /// Index in the codebook.
    pub index: u16,
    /// Shifted down instead of up.
    pub down: bool,
}

impl Shifted {
    fn shift(self) -> f32 {
        if self.down { -SHIFT } else { SHIFT }
    }
}

impl Shifts {
    /// Searches groups of `G` elements. `None` for a block of zeros.
    pub fn search<const G: usize, const S: usize>(
        &self,
        x: &[f32; 256],
        importance: Option<&[f32; 256]>,
    ) -> Option<ShiftedBlock<S>> {
        const { assert!(S * G == 256) };
        let block = Normal::new(x, importance)?;
        let (xs, ws) = (block.x.as_chunks::<G>().0, block.w.as_chunks::<G>().0);
        let ideal: [f32; S] = std::array::from_fn(|j| self.fit(&xs[j], &ws[j]));
        let (d, step) = block.store_step(largest(&ideal), 15.0);
        let mut found = ShiftedBlock { d, scales: [0; S], points: [Shifted::default(); 32] };
        for j in 0..S {
            let points = &mut found.points[j * (G / 8)..][..G / 8];
            let near = (ideal[j] * inverse(step) - 1.0) / 2.0;
            let scale = pick(near, 0, 7, |s| self.round(&xs[j], &ws[j], step * (2 * s + 1) as f32, points));
            self.round(&xs[j], &ws[j], step * (2 * scale + 1) as f32, points);
            found.scales[j] = scale as u8;
        }
        found.d = self.refit(&block, &found).unwrap_or(d);
        Some(found)
    }

    /// The best scale of a group over several: ternary values of noise stand at about half of its largest value.
    fn fit<const G: usize>(&self, x: &[f32; G], w: &[f32; G]) -> f32 {
        let largest = largest(x);
        let mut points = [Shifted::default(); 4];
        let points = &mut points[..G / 8];
        let (mut best, mut scale) = (0.0, 0.0);
        for k in 0..14 {
            self.round(x, w, largest * (0.25 + 0.06 * k as f32), points);
            let (xv, vv) = self.products(x, w, points);
            if xv > 0.0 && xv * xv > best * vv {
                (best, scale) = (xv * xv / vv, xv / vv);
            }
        }
        scale
    }

    /// Sets `points` to the nearest ones at `scale`; returns the weighted error.
    fn round(&self, x: &[f32], w: &[f32], scale: f32, points: &mut [Shifted]) -> f32 {
        let (n, inverse) = (self.together, inverse(scale));
        let groups = x.chunks_exact(8 * n).zip(w.chunks_exact(8 * n)).zip(points.chunks_exact_mut(n));
        let error = groups.map(|((x, w), points)| {
            let mut down = [Shifted::default(); 4];
            let up = self.round_shifted(x, w, inverse, false, points);
            let error = self.round_shifted(x, w, inverse, true, &mut down[..n]);
            if error < up {
                points.copy_from_slice(&down[..n]);
            }
            error.min(up)
        });
        scale * scale * error.sum::<f32>()
    }

    fn round_shifted(&self, x: &[f32], w: &[f32], inverse: f32, down: bool, points: &mut [Shifted]) -> f32 {
        let shift = Shifted { index: 0, down }.shift();
        let vectors = x.as_chunks::<8>().0.iter().zip(w.as_chunks::<8>().0).zip(points);
        vectors
            .map(|((x, w), point)| {
                let (index, error) = self.codebook.nearest(&x.map(|v| v * inverse - shift), w);
                *point = Shifted { index, down };
                error
            })
            .sum()
    }

    /// sum(wxv) and sum(wvv) of the values v that `points` stand for.
    fn products(&self, x: &[f32], w: &[f32], points: &[Shifted]) -> (f32, f32) {
        let (mut xv, mut vv) = (0.0, 0.0);
        for ((x, w), point) in x.as_chunks::<8>().0.iter().zip(w.as_chunks::<8>().0).zip(points) {
            let p = self.codebook.point(point.index).map(|p| p + point.shift());
            for k in 0..8 {
                xv += w[k] * x[k] * p[k];
                vv += w[k] * p[k] * p[k];
            }
        }
        (xv, vv)
    }

    /// The least-squares `d` for the scales and points found.
    fn refit<const S: usize>(&self, block: &Normal<256>, found: &ShiftedBlock<S>) -> Option<F16Le> {
        let n = 256 / S;
        let (mut xv, mut vv) = (0.0, 0.0);
        for (j, scale) in found.scales.iter().enumerate() {
            let scale = f32::from(2 * scale + 1);
            let points = &found.points[j * n / 8..][..n / 8];
            let (x, v) = self.products(&block.x[j * n..][..n], &block.w[j * n..][..n], points);
            xv += scale * x;
            vv += scale * scale * v;
        }
        let (d, value) = block.store(xv * inverse(vv));
        (value > 0.0).then_some(d)
    }
}
