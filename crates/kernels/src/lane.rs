//! Where the bytes of one lane of a key panel lie: keys are moved as they are stored, without a number being rounded again.

use crate::{
    block::{BlockPanels, block_bytes, codes_offset},
    float::FloatFormat,
};
use std::ops::Range;

/// Pieces that each lane has in a block of columns; the pieces of all lanes stand side by side.
#[derive(Clone, Copy)]
struct LaneField {
    /// Where the first piece of the first lane begins.
    start: usize,
    /// Bytes of a piece.
    width: usize,
    /// Pieces of a lane.
    count: usize,
}

/// The bytes of the lanes of a panel.
#[derive(Clone, Copy)]
pub struct LaneBytes {
    fields: [LaneField; 3],
    /// Bytes of a block of columns.
    block: usize,
    lanes: usize,
}

impl LaneBytes {
    /// Panels of `lanes` lanes of numbers: a block is one column.
    pub fn numbers<F: FloatFormat>(lanes: usize) -> LaneBytes {
        let none = LaneField { start: 0, width: 0, count: 0 };
        let number = LaneField { start: 0, width: F::BYTES, count: 1 };
        LaneBytes { fields: [number, none, none], block: F::BYTES * lanes, lanes }
    }

    /// Panels of `lanes` lanes of blocks with float16 scales: scale, minimum where there is one, and codes in words.
    pub fn blocks<F: BlockPanels>(lanes: usize) -> LaneBytes {
        let (codes, block) = (codes_offset::<F>(lanes), block_bytes::<F>(lanes));
        let scale = LaneField { start: 0, width: 2, count: 1 };
        let minimum = LaneField { start: 2 * lanes, width: 2, count: usize::from(F::MINS) };
        let words = LaneField { start: codes, width: 4, count: (block - codes) / (4 * lanes) };
        LaneBytes { fields: [scale, minimum, words], block, lanes }
    }

    /// The bytes of a lane in a panel of `len` bytes, piece by piece.
    fn pieces(self, lane: usize, len: usize) -> impl Iterator<Item = Range<usize>> {
        let of_field = move |block: usize, f: LaneField| {
            let start = move |i: usize| block + f.start + (i * self.lanes + lane) * f.width;
            (0..f.count).map(move |i| start(i)..start(i) + f.width)
        };
        let blocks = (0..len).step_by(self.block);
        blocks.flat_map(move |block| self.fields.into_iter().flat_map(move |f| of_field(block, f)))
    }

    /// Copies the bytes of a lane out of a panel.
    pub fn take(self, panel: &[u8], lane: usize, out: &mut Vec<u8>) {
        out.clear();
        self.pieces(lane, panel.len()).for_each(|piece| out.extend_from_slice(&panel[piece]));
    }

    /// Writes what [`LaneBytes::take`] gave into a lane.
    pub fn put(self, mut bytes: &[u8], lane: usize, panel: &mut [u8]) {
        for piece in self.pieces(lane, panel.len()) {
            let (first, rest) = bytes.split_at(piece.len());
            panel[piece].copy_from_slice(first);
            bytes = rest;
        }
    }
}
