//! How many rows a picture of some size has, and how they lie: known before a pixel is looked at.

use super::spec::{Arrangement, ProjectorStep, VisionSpec};
use lamina_image::{ImageError, PixelSize, TileGrid, Tiling};

/// Rows of a tile or of a picture, in rows and columns of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellGrid {
    /// Cells below one another.
    pub rows: usize,
    /// Cells beside one another.
    pub columns: usize,
}

impl CellGrid {
    /// Cells in all.
    pub fn cells(self) -> usize {
        self.rows * self.columns
    }

    /// The grid where squares of `side` by `side` cells are one.
    pub fn merged(self, side: usize) -> CellGrid {
        CellGrid { rows: self.rows / side, columns: self.columns / side }
    }
}

/// How a picture of some size becomes tiles and rows.
#[derive(Clone, Debug, PartialEq)]
pub struct PictureLayout {
    /// The picture's own size.
    pub size: PixelSize,
    /// How it is cut.
    pub tiling: Tiling,
    /// Sizes of its tiles in pixels, in order.
    pub tiles: Vec<PixelSize>,
    /// Patches of each tile.
    pub patches: Vec<CellGrid>,
    /// Rows of each tile behind the projector.
    pub cells: Vec<CellGrid>,
    /// Cells of the joined grid of tiles that are kept of a picture whose tiles are one grid, and none otherwise.
    pub joined: Option<CellGrid>,
}

impl VisionSpec {
    /// The layout of a picture of some size.
    ///
    /// # Errors
    /// The picture is too thin for the model.
    pub fn layout(&self, size: PixelSize) -> Result<PictureLayout, ImageError> {
        let tiling = self.pixels.fit.cut(size)?;
        let tiles = tiling.sizes(size);
        let patches: Vec<CellGrid> = tiles.iter().map(|&tile| self.tile_patches(tile)).collect();
        let cells: Vec<CellGrid> = patches.iter().map(|&grid| self.cells(grid)).collect();
        let mut layout = PictureLayout { size, tiling, tiles, patches, cells, joined: None };
        if self.arrangement == Arrangement::Joined {
            layout.joined = layout.unpadded();
        }
        Ok(layout)
    }

    fn tile_patches(&self, tile: PixelSize) -> CellGrid {
        let grid = self.pixels.patches.grid(tile);
        CellGrid { rows: grid.height as usize, columns: grid.width as usize }
    }

    /// Rows of a tile of this size behind the projector.
    pub(super) fn tile_cells(&self, tile: PixelSize) -> CellGrid {
        self.cells(self.tile_patches(tile))
    }

    /// Rows of a tile of so many patches behind the projector.
    fn cells(&self, patches: CellGrid) -> CellGrid {
        let inside = self.encoder.merger.map_or(patches, |merger| patches.merged(merger.side));
        self.projector.steps.iter().fold(inside, |grid, step| match step {
            ProjectorStep::Pool { side } | ProjectorStep::Merge { side, .. } => grid.merged(*side),
            _ => grid,
        })
    }
}

impl PictureLayout {
    /// Rows of the picture in a prompt.
    pub fn rows(&self) -> usize {
        match self.joined {
            None => self.cells.iter().map(|grid| grid.cells()).sum(),
            Some(grid) => self.cells[0].cells() + grid.rows * (grid.columns + 1),
        }
    }

    /// Patches of all tiles.
    pub fn patches(&self) -> usize {
        self.patches.iter().map(|grid| grid.cells()).sum()
    }

    /// Size of its largest view, tiles together: what the encoder gets to see of it.
    pub fn resized(&self) -> PixelSize {
        let view = |(first, grid): (usize, TileGrid)| {
            let tile = self.tiles[first];
            PixelSize::new(tile.width * grid.columns, tile.height * grid.rows)
        };
        self.views().map(view).max_by_key(|size| size.area()).unwrap_or(self.size)
    }

    /// Views of the picture with the index of the first tile of each.
    pub(super) fn views(&self) -> impl Iterator<Item = (usize, TileGrid)> {
        self.tiling.views.iter().scan(0, |first, view| {
            let at = *first;
            *first += view.grid.tiles() as usize;
            Some((at, view.grid))
        })
    }

    /// The grid of tiles behind the whole.
    pub fn tile_grid(&self) -> TileGrid {
        self.tiling.views.get(1).map_or(TileGrid::WHOLE, |view| view.grid)
    }

    /// Cells of all tiles as one grid.
    pub fn whole_grid(&self) -> CellGrid {
        let (tiles, cell) = (self.tile_grid(), self.cells.get(1).copied());
        let cell = cell.unwrap_or(CellGrid { rows: 0, columns: 0 });
        CellGrid { rows: cell.rows * tiles.rows as usize, columns: cell.columns * tiles.columns as usize }
    }

    /// The joined grid without the rows or columns that are padding, by the ratio of the picture's sides.
    fn unpadded(&self) -> Option<CellGrid> {
        self.tiling.views.get(1)?;
        let (grid, aspect) = (self.whole_grid(), self.size.aspect());
        let kept = |along: usize, of: u32, by: u32, across: usize| {
            let scaled = f64::from(of) * (across as f64 / f64::from(by));
            // Rounded to seven digits first, as the reference does: a last bit must not cost a row.
            let scaled = ((scaled * 1e7).round() / 1e7) as usize;
            along - along.saturating_sub(scaled) / 2 * 2
        };
        Some(if aspect > grid.columns as f64 / grid.rows as f64 {
            CellGrid { rows: kept(grid.rows, self.size.height, self.size.width, grid.columns), ..grid }
        } else {
            CellGrid { columns: kept(grid.columns, self.size.width, self.size.height, grid.rows), ..grid }
        })
    }
}
