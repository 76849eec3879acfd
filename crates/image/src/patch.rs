//! Tiles as rows of patches: what a patch embedding multiplies.

use crate::{
    number::Normalization,
    picture::{Picture, PixelSize},
};

/// Order of the numbers inside a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelOrder {
    /// Channel, frame, row, column: a convolution's weights as they are stored.
    ChannelsFirst,
    /// Row, column, channel.
    ChannelsLast,
}

/// How a tile becomes rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patches {
    /// Side of a patch in pixels.
    pub side: u32,
    /// How often a still picture stands behind itself, for encoders that take pairs of frames.
    pub frames: u32,
    /// Patches on a side of a square of neighbours that stand behind one another, since a projector merges them.
    pub merge: u32,
    /// Order inside a patch.
    pub order: PixelOrder,
}

impl Patches {
    /// Patches of a tile, in columns and rows.
    pub fn grid(&self, tile: PixelSize) -> PixelSize {
        PixelSize::new(tile.width / self.side, tile.height / self.side)
    }

    /// Numbers in a row.
    pub fn width(&self) -> usize {
        (3 * self.frames * self.side * self.side) as usize
    }

    /// Column and row of each patch of a grid, in order: row by row, or square by square of merged neighbours.
    pub fn places(&self, grid: PixelSize) -> impl Iterator<Item = (u32, u32)> {
        let merge = self.merge;
        let squares =
            (0..grid.height / merge).flat_map(move |y| (0..grid.width / merge).map(move |x| (x, y)));
        let inside = move |(x, y): (u32, u32)| {
            let cells = (0..merge).flat_map(move |dy| (0..merge).map(move |dx| (dx, dy)));
            cells.map(move |(dx, dy)| (x * merge + dx, y * merge + dy))
        };
        squares.flat_map(inside)
    }

    /// All rows `[patches][width]` of a tile.
    pub fn rows(&self, tile: &Picture, normalize: &Normalization) -> Vec<f32> {
        let grid = self.grid(tile.size());
        let mut rows = Vec::with_capacity(grid.area() as usize * self.width());
        for (x, y) in self.places(grid) {
            let lines =
                (0..self.side).map(|dy| &tile.row(y * self.side + dy)[(x * self.side * 3) as usize..]);
            let lines: Vec<&[u8]> = lines.map(|line| &line[..self.side as usize * 3]).collect();
            match self.order {
                PixelOrder::ChannelsFirst => self.push_channels(&lines, normalize, &mut rows),
                PixelOrder::ChannelsLast => rows.extend(
                    lines
                        .iter()
                        .flat_map(|line| line.iter().enumerate())
                        .map(|(i, &s)| normalize.number(i % 3, s)),
                ),
            }
        }
        rows
    }

    /// The numbers of one patch, channel by channel.
    fn push_channels(&self, lines: &[&[u8]], normalize: &Normalization, rows: &mut Vec<f32>) {
        for channel in 0..3 {
            for _ in 0..self.frames {
                let samples = lines.iter().flat_map(|line| line[channel..].iter().step_by(3));
                rows.extend(samples.map(|&sample| normalize.number(channel, sample)));
            }
        }
    }
}
