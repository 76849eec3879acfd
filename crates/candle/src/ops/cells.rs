//! Which cells a row sees.

use crate::machine::CandleMachine;
use candle_core::{Result, Tensor};
use lamina_plan::{
    Batch,
    batch::View,
    kv::PAGE_LEN,
    op::{ColumnRange, Mask},
};

/// The cells that a row sees, in their order.
pub(super) struct SeenCells {
    /// Row of the layer's pool that holds each cell.
    pub(super) places: Tensor,
    /// Tokens between the row and what each cell holds.
    pub(super) distances: Vec<f32>,
}

impl CandleMachine {
    /// Row of the pool of layer `kv` that holds a cell of the sequence of batch row `row`.
    pub(super) fn place(&self, b: &Batch, kv: usize, row: usize, cell: usize) -> usize {
        let (page, at) = b.locate(b.seq(row), self.layers[kv].group.unwrap_or(0), cell);
        page * PAGE_LEN + at
    }

    /// What batch row `row` sees in layer `kv`.
    pub(super) fn seen(&self, b: &Batch, kv: usize, row: usize, mask: Mask) -> Result<SeenCells> {
        let (seq, index) = (b.seq(row), b.index(row));
        let tokens = b.visible(row, mask);
        let cells: Vec<(usize, usize)> = match &seq.view {
            View::InOrder => tokens.map(|token| (token, token)).collect(),
            View::Mapped(map) => {
                let all = map.iter().map(|&token| token as usize).enumerate();
                all.filter(|(_, token)| tokens.contains(token)).collect()
            }
        };
        let places: Vec<u32> = cells.iter().map(|&(cell, _)| self.place(b, kv, row, cell) as u32).collect();
        let distances = cells.iter().map(|&(_, token)| index.abs_diff(token) as f32).collect();
        Ok(SeenCells { places: self.ids(&places)?, distances })
    }

    /// Puts two slots' rows into the pages of layer `kv`.
    pub(super) fn store_rows(&self, b: &Batch, kv: usize, slots: [lamina_plan::Slot; 2]) -> Result<()> {
        for (i, slot) in slots.into_iter().enumerate() {
            let pool = self.layers[kv].part(i)?;
            let rows = pool.stored(&self.columns(b, slot, ColumnRange::All)?)?;
            for row in 0..b.rows() {
                let at = self.place(b, kv, row, b.cells[row] as usize);
                pool.put(at, &rows.narrow(0, row, 1)?)?;
            }
        }
        Ok(())
    }
}
