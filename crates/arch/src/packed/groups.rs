//! Which scale belongs to which number of a matrix.

/// A numbering of scales.
#[derive(Debug)]
pub(crate) enum ScaleGroups {
    /// Each of several stacked matrices of `matrix` rows has its own grid of `down x across` scales; one scale spans
    /// `rows x cols` numbers, those at the edges fewer.
    Blocks { matrix: usize, rows: usize, cols: usize, down: usize, across: usize },
    /// Every row has `groups` scales, and each column says which one it takes.
    Listed { of_col: Vec<u32>, groups: usize },
    /// Runs of so many numbers, counted through all rows.
    Runs(usize),
    /// All numbers in turn, dealt out to so many scales.
    Cyclic(usize),
}

impl ScaleGroups {
    /// One scale for every `cols` columns of every row.
    pub fn of_rows(cols: usize, across: usize) -> ScaleGroups {
        ScaleGroups::Blocks { matrix: 1, rows: 1, cols, down: 1, across }
    }

    /// Scales that a matrix of `rows x cols` needs; none when there are impossibly many.
    pub fn count(&self, rows: usize, cols: usize) -> Option<usize> {
        match self {
            ScaleGroups::Blocks { matrix, down, across, .. } => {
                rows.div_ceil(*matrix).checked_mul(*down)?.checked_mul(*across)
            }
            ScaleGroups::Listed { groups, .. } => rows.checked_mul(*groups),
            ScaleGroups::Runs(n) => Some(rows.checked_mul(cols)?.div_ceil(*n)),
            ScaleGroups::Cyclic(n) => Some(*n),
        }
    }

    /// True when all sizes fit a matrix of `rows x cols`, so that [`ScaleGroups::at`] stays below [`ScaleGroups::count`].
    pub fn fit(&self, rows: usize, cols: usize) -> bool {
        match self {
            ScaleGroups::Blocks { matrix, rows: r, cols: c, down, across } => {
                let some = *matrix > 0 && *r > 0 && *c > 0 && rows.is_multiple_of(*matrix);
                some && matrix.div_ceil(*r) <= *down && cols.div_ceil(*c) <= *across
            }
            ScaleGroups::Listed { of_col, groups } => {
                of_col.len() == cols && of_col.iter().all(|g| (*g as usize) < *groups)
            }
            ScaleGroups::Runs(n) | ScaleGroups::Cyclic(n) => *n > 0,
        }
    }

    /// The scale at (`row`, `col`), and the first column behind `col` that may have another one.
    #[inline]
    pub fn at(&self, row: usize, col: usize, cols: usize) -> (usize, usize) {
        match self {
            ScaleGroups::Blocks { matrix, rows, cols: width, down, across } => {
                let block = row / matrix * down + row % matrix / rows;
                (block * across + col / width, (col / width + 1).saturating_mul(*width).min(cols))
            }
            ScaleGroups::Listed { of_col, groups } => {
                let mine = of_col[col];
                let end = of_col[col..].iter().position(|g| *g != mine).map_or(cols, |n| col + n);
                (row * groups + mine as usize, end)
            }
            ScaleGroups::Runs(n) => {
                let at = row * cols + col;
                (at / n, (col + n - at % n).min(cols))
            }
            ScaleGroups::Cyclic(n) => ((row * cols + col) % n, col + 1),
        }
    }

    /// True when every 32 columns from the left have one scale.
    pub fn whole_blocks(&self, cols: usize) -> bool {
        cols.is_multiple_of(32)
            && match self {
                ScaleGroups::Blocks { cols: width, .. } => width.is_multiple_of(32) || *width >= cols,
                ScaleGroups::Listed { of_col, .. } => {
                    of_col.chunks(32).all(|block| block.iter().all(|g| *g == block[0]))
                }
                ScaleGroups::Runs(n) => n.is_multiple_of(32),
                ScaleGroups::Cyclic(_) => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_where_the_next_scale_begins() {
        let blocks =
            |cols| ScaleGroups::Blocks { matrix: 6, rows: 4, cols, down: 2, across: 11usize.div_ceil(cols) };
        let listed = ScaleGroups::Listed { of_col: vec![0, 0, 2, 2, 2, 1, 1, 0, 0, 0, 0], groups: 3 };
        for groups in [
            blocks(1),
            blocks(4),
            blocks(11),
            blocks(64),
            listed,
            ScaleGroups::Runs(4),
            ScaleGroups::Cyclic(22),
        ] {
            assert!(groups.fit(12, 11), "{groups:?}");
            let count = groups.count(12, 11).expect("few");
            for row in 0..12 {
                let by_column: Vec<usize> = (0..11).map(|col| groups.at(row, col, 11).0).collect();
                let mut col = 0;
                while col < 11 {
                    let (index, end) = groups.at(row, col, 11);
                    assert!(index < count && end > col && end <= 11, "{groups:?}");
                    assert!(by_column[col..end].iter().all(|i| *i == index), "{groups:?}");
                    col = end;
                }
            }
        }
    }

    #[test]
    fn sizes_that_reach_beyond_their_scales_do_not_fit() {
        let blocks = |rows, cols| ScaleGroups::Blocks { matrix: 8, rows, cols, down: 2, across: 3 };
        assert!(blocks(4, 4).fit(8, 12) && !blocks(3, 4).fit(8, 12) && !blocks(4, 3).fit(8, 12));
        assert!(!blocks(0, 4).fit(8, 12) && !blocks(4, 0).fit(8, 12) && !blocks(4, 4).fit(9, 12));
        assert!(!ScaleGroups::Listed { of_col: vec![0, 3], groups: 3 }.fit(1, 2));
        assert!(!ScaleGroups::Runs(0).fit(1, 1));
        assert_eq!(ScaleGroups::of_rows(1, usize::MAX).count(2, 1), None);
    }

    #[test]
    fn blocks_of_32_are_seen() {
        assert!(
            ScaleGroups::of_rows(64, 2).whole_blocks(128) && ScaleGroups::of_rows(96, 1).whole_blocks(96)
        );
        assert!(
            !ScaleGroups::of_rows(48, 2).whole_blocks(96) && !ScaleGroups::of_rows(40, 1).whole_blocks(40)
        );
        let listed = |n| ScaleGroups::Listed { of_col: (0..64).map(|c| (c / n) as u32).collect(), groups: 4 };
        assert!(listed(32).whole_blocks(64) && !listed(16).whole_blocks(64));
        assert!(ScaleGroups::Runs(64).whole_blocks(96) && !ScaleGroups::Runs(48).whole_blocks(96));
    }
}
