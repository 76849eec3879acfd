//! Orders of a tile's rows: as the pixels give them, and window by window.

use lamina_arch::vision::{CellGrid, VisionSpec};
use lamina_image::PixelSize;
use std::ops::Range;

/// Where the patches of a tile stand, in the order in which the blocks have them.
pub(super) struct RowOrder {
    /// Row of the pixels' order of each row.
    pub from: Vec<usize>,
    /// Row and column of each patch of the pixels' order.
    pub places: Vec<(usize, usize)>,
    /// Rows of each window; one for all where there are none.
    pub windows: Vec<Range<usize>>,
}

impl RowOrder {
    /// The order of a tile of `grid` patches.
    pub fn of(spec: &VisionSpec, grid: CellGrid) -> RowOrder {
        let size = PixelSize::new(grid.columns as u32, grid.rows as u32);
        let places: Vec<(usize, usize)> =
            spec.pixels.patches.places(size).map(|(x, y)| (y as usize, x as usize)).collect();
        let mut from: Vec<usize> = (0..places.len()).collect();
        let Some(windows) = &spec.encoder.windows else {
            let all = 0..from.len();
            return RowOrder { from, places, windows: std::iter::once(all).collect() };
        };
        let window = |i: usize| (places[i].0 / windows.side, places[i].1 / windows.side);
        // Stable: merged neighbours stay behind one another, since windows are whole cells.
        from.sort_by_key(|&i| window(i));
        let mut ranges: Vec<Range<usize>> = vec![];
        for (at, &i) in from.iter().enumerate() {
            match ranges.last_mut().filter(|last| window(from[last.start]) == window(i)) {
                Some(last) => last.end = at + 1,
                None => ranges.push(at..at + 1),
            }
        }
        RowOrder { from, places, windows: ranges }
    }
}
