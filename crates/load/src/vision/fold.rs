//! What becomes of neighbours between two plans: joined, or their mean.

use lamina_arch::vision::{CellGrid, MergeOrder};

/// Rows of a tile between two plans.
pub(super) struct TileCells {
    pub grid: CellGrid,
    /// Numbers of a row.
    pub width: usize,
    pub rows: Vec<f32>,
    /// Side of the squares whose rows stand behind one another; 1: all rows stand in the order of the grid.
    pub squares: usize,
}

impl TileCells {
    /// The rows of the square at (`row`, `column`) of the grid of squares of `side`, in order.
    fn square(&self, side: usize, (row, column): (usize, usize)) -> Vec<&[f32]> {
        let at = |i: usize| &self.rows[i * self.width..(i + 1) * self.width];
        if self.squares == side {
            let first = (row * (self.grid.columns / side) + column) * side * side;
            return (first..first + side * side).map(at).collect();
        }
        let inside = (0..side).flat_map(|dy| (0..side).map(move |dx| (row * side + dy, column * side + dx)));
        inside.map(|(y, x)| at(y * self.grid.columns + x)).collect()
    }

    fn folded(self, side: usize, width: usize, one: impl Fn(&[&[f32]], &mut Vec<f32>)) -> TileCells {
        let grid = self.grid.merged(side);
        let mut rows = Vec::with_capacity(grid.cells() * width);
        for row in 0..grid.rows {
            for column in 0..grid.columns {
                one(&self.square(side, (row, column)), &mut rows);
            }
        }
        TileCells { grid, width, rows, squares: 1 }
    }

    /// Squares of neighbours as one row each.
    pub fn merged(self, side: usize, order: MergeOrder) -> TileCells {
        let (width, own) = (self.width * side * side, self.width);
        self.folded(side, width, |square, rows| match order {
            MergeOrder::Neighbours => square.iter().for_each(|row| rows.extend_from_slice(row)),
            MergeOrder::Channels => (0..own).for_each(|c| rows.extend(square.iter().map(|row| row[c]))),
        })
    }

    /// Each number less one of `less`, times one of `times`.
    pub fn standardized(mut self, less: &[f32], times: &[f32]) -> TileCells {
        for row in self.rows.chunks_exact_mut(self.width) {
            row.iter_mut()
                .zip(less.iter().zip(times))
                .for_each(|(v, (less, times))| *v = (*v - less) * times);
        }
        self
    }

    /// The mean of squares of neighbours, summed in their order.
    pub fn pooled(self, side: usize) -> TileCells {
        let width = self.width;
        self.folded(side, width, |square, rows| {
            let count = square.len() as f32;
            rows.extend((0..width).map(|c| square.iter().map(|row| row[c]).sum::<f32>() / count));
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_in_either_order() {
        let cells = |squares, rows: [f32; 16]| TileCells {
            grid: CellGrid { rows: 2, columns: 4 },
            width: 2,
            rows: rows.into(),
            squares,
        };
        let by_rows: [f32; 16] = std::array::from_fn(|i| i as f32);
        let one = cells(1, by_rows).merged(2, MergeOrder::Neighbours);
        assert_eq!((one.grid, one.width), (CellGrid { rows: 1, columns: 2 }, 8));
        assert_eq!(one.rows[..8], [0., 1., 2., 3., 8., 9., 10., 11.]);
        let channels = cells(1, by_rows).merged(2, MergeOrder::Channels);
        assert_eq!(channels.rows[..8], [0., 2., 8., 10., 1., 3., 9., 11.]);
        assert_eq!(cells(2, by_rows).merged(2, MergeOrder::Neighbours).rows[..8], by_rows[..8]);
        assert_eq!(cells(1, by_rows).pooled(2).rows, [5., 6., 9., 10.]);
        let standardized = cells(1, by_rows).standardized(&[1., 2.], &[2., 3.]).rows;
        assert_eq!(standardized[..4], [-2., -3., 2., 3.]);
    }
}
