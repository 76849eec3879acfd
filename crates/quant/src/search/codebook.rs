//! Codebooks: fixed sets of points to which vectors of 4 or 8 values are rounded.

/// Points looked at for a vector that rounds to no point. 16 leaves the error where 8 does within 0.2 %.
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
    cells: Vec<Cell>,
}

struct Cell {
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
                Cell::around(points, &center)
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

impl Cell {
    fn around<const D: usize>(points: &[[i8; D]], center: &[i8; D]) -> Self {
        let distance = |p: &[i8; D]| -> u32 {
            p.iter().zip(center).map(|(a, b)| u32::from(a.abs_diff(*b)).pow(2)).sum()
        };
        let mut all: Vec<(u32, u16)> = points.iter().map(distance).zip(0..).collect();
        let (near, ..) = all.select_nth_unstable(NEAR);
        near.sort_unstable();
        Cell { exact: near[0].0 == 0, near: std::array::from_fn(|i| near[i].1) }
    }
}
