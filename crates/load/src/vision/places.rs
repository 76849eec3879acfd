//! Rows of learned places that are added to those of patches.

use lamina_arch::vision::{CellGrid, ClassRow, PatchPlaces};

/// A table of places in memory, and how patches find theirs.
pub(super) struct Places {
    rule: PatchPlaces,
    class: Option<ClassRow>,
    width: usize,
    table: Vec<f32>,
}

impl Places {
    /// Places of a table of rows of `width` numbers.
    pub fn new(rule: PatchPlaces, class: Option<ClassRow>, width: usize, table: Vec<f32>) -> Places {
        Places { rule, class, width, table }
    }

    /// Rows of the table.
    pub fn rows(&self) -> usize {
        self.table.len() / self.width.max(1)
    }

    /// Adds the place of the patch at (`row`, `column`) of a grid to its numbers.
    pub fn add(&self, grid: CellGrid, (row, column): (usize, usize), to: &mut [f32]) {
        let mut sum = vec![0.0; self.width];
        let taps = self.taps(grid, (row, column));
        let Some((first, rest)) = taps.split_first() else { return };
        let at = |i: usize| &self.table[i * self.width..(i + 1) * self.width];
        sum.iter_mut().zip(at(first.0)).for_each(|(s, v)| *s = first.1 * v);
        for &(i, weight) in rest {
            sum.iter_mut().zip(at(i)).for_each(|(s, v)| *s += weight * v);
        }
        to.iter_mut().zip(&sum).for_each(|(to, s)| *to += s);
    }

    /// Adds the place of the class row.
    pub fn add_class(&self, to: &mut [f32]) {
        let i = if self.class == Some(ClassRow::Last) { self.rows().saturating_sub(1) } else { 0 };
        if self.rule == PatchPlaces::Each {
            to.iter_mut().zip(&self.table[i * self.width..]).for_each(|(to, v)| *to += v);
        }
    }

    /// Rows of the table with their weights.
    fn taps(&self, grid: CellGrid, (row, column): (usize, usize)) -> Vec<(usize, f32)> {
        let plain = |i: usize| vec![(i, 1.0)];
        match self.rule {
            PatchPlaces::None => vec![],
            PatchPlaces::Each => {
                let before = usize::from(matches!(self.class, Some(ClassRow::First | ClassRow::FirstKept)));
                plain(before + row * grid.columns + column)
            }
            PatchPlaces::Fraction { side } => {
                plain(bucket(row, grid.rows, side) * side + bucket(column, grid.columns, side))
            }
            PatchPlaces::Bilinear { side } => {
                let (r, c) = (between(row, grid.rows, side), between(column, grid.columns, side));
                let all = r.iter().flat_map(|&(i, a)| c.iter().map(move |&(j, b)| (i * side + j, a * b)));
                all.collect()
            }
            PatchPlaces::Bicubic { side } => {
                let (r, c) = (cubic(row, grid.rows, side), cubic(column, grid.columns, side));
                let all = r.iter().flat_map(|&(i, a)| c.iter().map(move |&(j, b)| (i * side + j, a * b)));
                all.collect()
            }
            PatchPlaces::Axes { rows } => vec![(column, 1.0), (rows + row, 1.0)],
        }
    }
}

/// Which of `side` equal parts the beginning of patch `i` of `of` lies in, in the arithmetic that models were trained with:
/// both in single precision.
fn bucket(i: usize, of: usize, side: usize) -> usize {
    let fraction = (i as f32 * (1.0 / of as f32)).min(1.0 - 1e-6);
    let border = |k: usize| (k as f64 / side as f64) as f32;
    (1..side).take_while(|&k| border(k) <= fraction).count()
}

/// The two rows around patch `i` of `of`, the first and the last of which lie on the table's own.
fn between(i: usize, of: usize, side: usize) -> [(usize, f32); 2] {
    let (last, steps) = ((side - 1) as f32, of.saturating_sub(1).max(1));
    let step = last / steps as f32;
    // As the reference counts: from the nearer end.
    let at = if i < of / 2 || of == 1 { step * i as f32 } else { last - step * (of - 1 - i) as f32 };
    let low = (at as usize).min(side - 1);
    let part = at - low as f32;
    [(low, 1.0 - part), ((low + 1).min(side - 1), part)]
}

/// The four rows around the middle of patch `i` of `of`, those outside being the nearest inside (a = -0.75).
fn cubic(i: usize, of: usize, side: usize) -> [(usize, f32); 4] {
    const A: f32 = -0.75;
    let unit = (i as f32 + 0.5) / of as f32 * 2.0 - 1.0;
    let at = ((unit + 1.0) * side as f32 - 1.0) / 2.0;
    let low = at.floor();
    let t = at - low;
    let near = |x: f32| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f32| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    let weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
    let inside = |k: usize| (low as i64 + k as i64 - 1).clamp(0, side as i64 - 1) as usize;
    std::array::from_fn(|k| (inside(k), weights[k]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_lie_on_corners_and_weights_sum_to_one() {
        assert_eq!(between(0, 5, 6)[0], (0, 1.0));
        assert_eq!(between(4, 5, 6)[0], (5, 1.0));
        for (of, side) in [(1, 6), (3, 6), (17, 4)] {
            for i in 0..of {
                let sums = [
                    between(i, of, side).iter().map(|t| t.1).sum::<f32>(),
                    cubic(i, of, side).iter().map(|t| t.1).sum(),
                ];
                assert!(sums.iter().all(|s| (s - 1.0).abs() < 1e-6), "{i} of {of} in {side}: {sums:?}");
            }
        }
        assert_eq!((0..4).map(|i| bucket(i, 4, 4)).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!((0..3).map(|i| bucket(i, 3, 4)).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
