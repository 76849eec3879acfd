//! Codebooks: fixed sets of points to which vectors of 4 or 8 values are rounded.

/// Points looked at for a vector that rounds to no point. Twice as many lower the error by half a percent (by one and
/// a half with importance) and cost a third of the speed.
const NEAR: usize = 8;

/// A set of points with, for each vector of coordinate levels, the points nearest to it.
pub(crate) struct Codebook<const D: usize> {
    points: &'static [[i8; D]],
    /// Midpoints between the levels of a coordinate; infinity after the last.
    borders: [f32; 7],
    /// Number of levels.
    base: usize,
    /// The largest level.
    top: f32,
    cells: Vec<CodeCell>,
}

struct CodeCell {
    near: [u16; NEAR],
    /// The cell is itself a point, and so the best whatever the weights are.
    exact: bool,
}

impl<const D: usize> Codebook<D> {
    /// Finds the neighbours of all `levels.len()^D` cells.
    pub fn new(points: &'static [[i8; D]], levels: &[i8]) -> Self {
        let mut borders = [f32::INFINITY; 7];
        for (border, pair) in borders.iter_mut().zip(levels.windows(2)) {
            *border = (f32::from(pair[0]) + f32::from(pair[1])) / 2.0;
        }
        let base = levels.len();
        let cells = (0..base.pow(D as u32))
            .map(|cell| {
                let center = std::array::from_fn(|k| levels[cell / base.pow(k as u32) % base]);
                CodeCell::around(points, &center)
            })
            .collect();
        let top = levels.iter().copied().max().map_or(0.0, f32::from);
        Codebook { points, borders, base, top, cells }
    }

    /// Coordinates of a point.
    #[inline(always)]
    pub fn point(&self, index: u16) -> [f32; D] {
        self.points[usize::from(index)].map(f32::from)
    }

    /// The point with the smallest weighted distance to `y` among the neighbours of the cell of `y`, and that distance.
    pub fn nearest(&self, y: &[f32; D], w: &[f32; D]) -> (u16, f32) {
        let cell = &self.cells[y.iter().rev().fold(0, |cell, v| cell * self.base + self.level(*v))];
        let distance = |index: u16| {
            let p = self.point(index);
            (0..D).map(|k| w[k] * (y[k] - p[k]) * (y[k] - p[k])).sum::<f32>()
        };
        let mut best = (cell.near[0], distance(cell.near[0]));
        if !cell.exact {
            for &index in &cell.near[1..] {
                let d = distance(index);
                best = if d < best.1 { (index, d) } else { best };
            }
        }
        best
    }

    /// The largest level.
    pub fn top(&self) -> f32 {
        self.top
    }

    #[inline(always)]
    fn level(&self, y: f32) -> usize {
        self.borders.iter().map(|b| usize::from(y > *b)).sum()
    }
}

impl CodeCell {
    fn around<const D: usize>(points: &[[i8; D]], center: &[i8; D]) -> Self {
        let distance = |p: &[i8; D]| -> u32 {
            p.iter().zip(center).map(|(a, b)| u32::from(a.abs_diff(*b)).pow(2)).sum()
        };
        let mut all: Vec<(u32, u16)> = points.iter().map(distance).zip(0..).collect();
        let (near, ..) = all.select_nth_unstable(NEAR);
        near.sort_unstable();
        CodeCell { exact: near[0].0 == 0, near: std::array::from_fn(|i| near[i].1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::grids;

    /// A fixed spread of vectors over and beyond the levels.
    fn vectors<const D: usize>(top: f32) -> impl Iterator<Item = [f32; D]> {
        (0..2000u32).map(move |i| {
            std::array::from_fn(|k| {
                let r = (i * D as u32 + k as u32)
                    .wrapping_mul(0x9E37_79B9)
                    .rotate_left(11)
                    .wrapping_mul(0x85EB_CA6B);
                (r >> 8) as f32 / (1 << 24) as f32 * 1.2 * top
            })
        })
    }

    /// How much farther the point found is than the nearest of all points, in mean squared distance.
    fn excess<const D: usize>(points: &'static [[i8; D]], levels: &[i8], w: [f32; D]) -> f32 {
        let codebook = Codebook::new(points, levels);
        let (mut found, mut least) = (0.0, 0.0);
        for y in vectors::<D>(codebook.top()) {
            let distance = |p: &[i8; D]| (0..D).map(|k| w[k] * (y[k] - f32::from(p[k])).powi(2)).sum::<f32>();
            let (index, reported) = codebook.nearest(&y, &w);
            assert!((reported - distance(&points[usize::from(index)])).abs() <= 1e-4 * reported);
            found += reported;
            least += points.iter().map(distance).fold(f32::MAX, f32::min);
        }
        found / least - 1.0
    }

    #[test]
    fn neighbours_are_nearly_as_near_as_the_nearest_of_all_points() {
        // Squared distances: up to 6 % more with equal weights, 8 % with weights that differ eightfold. Encoders try several
        // scales, which takes back most of it.
        let (equal, unequal) = (0.07, 0.1);
        let slope = std::array::from_fn(|k| 1.0 + k as f32);
        for points in [&grids::IQ2_XXS[..], &grids::IQ2_XS, &grids::IQ2_S] {
            assert!(excess(points, &grids::IQ2_LEVELS, [1.0; 8]) < equal);
            assert!(excess(points, &grids::IQ2_LEVELS, slope) < unequal);
        }
        assert!(excess(&grids::IQ3_S, &grids::IQ3_S_LEVELS, [1.0; 4]) < equal);
        assert!(excess(&grids::IQ3_XXS, &grids::IQ3_XXS_LEVELS, [1.0, 2.0, 4.0, 8.0]) < unequal);
    }

    #[test]
    fn a_point_is_its_own_neighbour() {
        let codebook = Codebook::new(&grids::IQ1, &grids::IQ1_LEVELS);
        for (i, point) in grids::IQ1.iter().enumerate() {
            assert_eq!(codebook.nearest(&point.map(f32::from), &[1.0; 8]), (i as u16, 0.0));
        }
    }
}
