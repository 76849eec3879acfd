//! How a picture of some size becomes tiles: steps in integers, known before a pixel is looked at.

use crate::{
    filter::Filter,
    picture::{Picture, PixelSize},
    resize::resize,
};

/// A rectangle in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Column of its left upper corner.
    pub left: u32,
    /// Row of its left upper corner.
    pub top: u32,
    /// Its sides.
    pub size: PixelSize,
}

/// One change of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Resampled to a size.
    Resize(PixelSize),
    /// Laid on a larger canvas of one colour.
    Pad {
        /// Where it lies on the canvas: column of its left upper corner.
        left: u32,
        /// Row of its left upper corner.
        top: u32,
        /// The canvas.
        canvas: PixelSize,
        /// Colour around it.
        colour: [u8; 3],
    },
    /// A part of it.
    Crop(Region),
}

/// Tiles of equal size, in rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileGrid {
    /// Tiles below one another.
    pub rows: u32,
    /// Tiles beside one another.
    pub columns: u32,
}

/// A look at a picture: steps, and then a grid of tiles, which are taken row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileView {
    /// The view whose canvas the steps begin with; none for the picture itself.
    pub of: Option<usize>,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// How the result is cut.
    pub grid: TileGrid,
}

/// All views of a picture, in the order in which an encoder takes their tiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tiling {
    /// The views. One refers to earlier ones only.
    pub views: Vec<TileView>,
}

impl TileGrid {
    /// A view that is not cut.
    pub const WHOLE: TileGrid = TileGrid { rows: 1, columns: 1 };

    /// Number of tiles.
    pub fn tiles(self) -> u32 {
        self.rows * self.columns
    }
}

impl Step {
    /// The size behind this step.
    fn size(&self) -> PixelSize {
        match *self {
            Step::Resize(size) => size,
            Step::Pad { canvas, .. } => canvas,
            Step::Crop(region) => region.size,
        }
    }

    fn apply(&self, picture: &Picture, filter: Filter) -> Picture {
        match *self {
            Step::Resize(size) => resize(picture, size, filter),
            Step::Pad { left, top, canvas, colour } => picture.padded(left, top, canvas, colour),
            Step::Crop(Region { left, top, size }) => picture.part(left, top, size),
        }
    }
}

impl TileView {
    /// The picture itself after some steps, as one tile.
    pub fn whole(steps: Vec<Step>) -> TileView {
        TileView { of: None, steps, grid: TileGrid::WHOLE }
    }

    /// The size of a canvas that begins as `from`.
    fn canvas(&self, from: PixelSize) -> PixelSize {
        self.steps.last().map_or(from, Step::size)
    }

    /// The size of each tile of a canvas.
    fn tile(&self, canvas: PixelSize) -> PixelSize {
        PixelSize::new(canvas.width / self.grid.columns, canvas.height / self.grid.rows)
    }
}

impl Tiling {
    /// Sizes of all tiles of a picture of size `of`, in order, without a pixel of it.
    pub fn sizes(&self, of: PixelSize) -> Vec<PixelSize> {
        let mut canvases: Vec<PixelSize> = vec![];
        let mut sizes = vec![];
        for view in &self.views {
            let canvas = view.canvas(view.of.map_or(of, |i| canvases[i]));
            canvases.push(canvas);
            sizes.extend((0..view.grid.tiles()).map(|_| view.tile(canvas)));
        }
        sizes
    }

    /// All tiles of a picture, in order.
    pub fn apply(&self, picture: &Picture, filter: Filter) -> Vec<Picture> {
        let mut canvases: Vec<Picture> = vec![];
        let mut tiles = vec![];
        for view in &self.views {
            let source = view.of.map_or(picture, |i| &canvases[i]);
            let first = view.steps.first().map(|step| step.apply(source, filter));
            let rest = view.steps.iter().skip(1);
            let canvas = rest.fold(first.unwrap_or_else(|| source.clone()), |p, step| step.apply(&p, filter));
            let size = view.tile(canvas.size());
            let places =
                (0..view.grid.rows).flat_map(|row| (0..view.grid.columns).map(move |column| (row, column)));
            tiles.extend(
                places.map(|(row, column)| canvas.part(column * size.width, row * size.height, size)),
            );
            canvases.push(canvas);
        }
        tiles
    }
}
