//! How a backend lays out a weight in its memory: known without reading a byte of it.

use std::ops::Range;

/// A weight in the form of a backend's kernels: panels of rows, matrix by matrix. A panel can be packed, stored and read
/// alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightLayout {
    /// Matrices: one, or those of a stack. Each is a piece that can be bound alone.
    pub matrices: usize,
    /// Rows of a panel; the last one of a matrix may hold fewer.
    pub panel_rows: usize,
    /// Panels of a matrix.
    pub panels: usize,
    /// Bytes of a panel.
    pub panel_bytes: usize,
    /// Names the order of bytes in a panel. Where it is equal, so are the bytes of equal rows.
    pub key: String,
}

impl WeightLayout {
    /// Bytes of all matrices.
    pub fn bytes(&self) -> usize {
        self.matrices * self.panels * self.panel_bytes
    }

    /// Panels that hold `rows` of a matrix.
    ///
    /// # Panics
    /// When the rows begin inside a panel.
    pub fn panels_of(&self, rows: &Range<usize>) -> Range<usize> {
        assert!(rows.start.is_multiple_of(self.panel_rows), "rows {rows:?} in panels of {}", self.panel_rows);
        rows.start / self.panel_rows..rows.end.div_ceil(self.panel_rows)
    }
}
