//! Rules by which pictures of any size become what an encoder takes.

mod area;
mod grid;
mod whole;

use crate::{cut::Tiling, error::ImageError, picture::PixelSize};

/// A rule of a family. Each is that of the processor that the family was trained with, to the pixel.
#[derive(Debug, Clone, PartialEq)]
pub enum Fit {
    /// Resized to one size, whatever its aspect (SigLIP, Gemma 3).
    Exact {
        /// That size.
        size: PixelSize,
        /// Crops of long pictures behind the whole.
        crops: Option<PanAndScan>,
    },
    /// The shorter side resized, then the middle (CLIP).
    Center {
        /// The shorter side.
        short: u32,
        /// The middle; what is missing around it is black.
        crop: PixelSize,
    },
    /// Padded to a square in its middle, then resized (LLaVA as its authors did).
    Square {
        /// The side.
        side: u32,
        /// Colour around the picture.
        colour: [u8; 3],
    },
    /// Aspect kept, sides whole cells, area between two numbers of pixels (Qwen-VL, GLM-V).
    Area {
        /// Side of a cell in pixels: patch times merge.
        cell: u32,
        /// Fewest pixels over all frames.
        min: u64,
        /// Most pixels over all frames.
        max: u64,
        /// How often a still picture is counted: GLM-V counts its second frame, and enlarges sides below a cell first.
        frames: u32,
    },
    /// Aspect kept, the longer side bounded, sides whole cells (Pixtral, Mistral 3).
    LongSide {
        /// Longest side.
        longest: u32,
        /// Side of a cell in pixels.
        cell: u32,
    },
    /// Aspect kept, as many whole cells as a budget has (Gemma 4).
    Budget {
        /// Side of a patch in pixels.
        patch: u32,
        /// Patches on a side of a cell.
        pool: u32,
        /// Most cells.
        cells: u32,
    },
    /// The whole, then tiles of the best of some canvases, padded in its middle with black (LLaVA-NeXT).
    Pinpoints {
        /// Side of a tile.
        tile: u32,
        /// The canvases.
        canvases: Vec<PixelSize>,
    },
    /// The longer side resized, both sides up to whole tiles; tiles, then the whole as one (Idefics 3, SmolVLM).
    Split {
        /// The longer side.
        longest: u32,
        /// Side of a tile.
        tile: u32,
        /// False: only the whole as one tile.
        tiles: bool,
    },
    /// Tiles in the grid whose aspect is nearest, then the whole where there are several (InternVL).
    Aspect {
        /// PixelSize of a tile.
        tile: PixelSize,
        /// Fewest and most tiles; one: only the whole.
        min: u32,
        /// Most tiles.
        max: u32,
        /// The whole follows several tiles.
        thumbnail: bool,
    },
    /// Tiles of the canvas that shrinks the picture least, padded right and below with black, then the whole (Llama 4).
    Canvas {
        /// Side of a tile.
        tile: u32,
        /// Most tiles.
        most: u32,
        /// Enlarged as far as the largest canvas lets it.
        enlarge: bool,
    },
    /// The whole in about the area of one slice, then slices of equal size (MiniCPM-V).
    Slices {
        /// Side of a square of a slice's area.
        side: u32,
        /// Most slices; one: only the whole.
        most: u32,
        /// Side of a cell in pixels.
        cell: u32,
    },
}

/// Crops of pictures that are much longer on one side than on the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PanAndScan {
    /// Shortest side of a crop in pixels.
    pub min_side: u32,
    /// Most crops.
    pub most: u32,
    /// Ratio of the sides from which on there are crops.
    pub ratio: f64,
}

/// Largest ratio of the sides where a rule says that there is one.
const MAX_RATIO: u32 = 200;

impl Fit {
    /// The views of a picture of some size.
    ///
    /// # Errors
    /// The picture is too thin for the rule.
    pub fn cut(&self, of: PixelSize) -> Result<Tiling, ImageError> {
        let views = match *self {
            Fit::Exact { size, crops } => whole::exact(of, size, crops),
            Fit::Center { short, crop } => whole::center(of, short, crop),
            Fit::Square { side, colour } => whole::square(of, side, colour),
            Fit::Area { cell, min, max, frames } => area::bounded(of, cell, min..=max, frames)?,
            Fit::LongSide { longest, cell } => area::long_side(of, longest, cell),
            Fit::Budget { patch, pool, cells } => area::budget(of, patch * pool, cells)?,
            Fit::Pinpoints { tile, ref canvases } => grid::pinpoints(of, tile, canvases),
            Fit::Split { longest, tile, tiles } => grid::split(of, longest, tile, tiles),
            Fit::Aspect { tile, min, max, thumbnail } => grid::aspect(of, tile, min..=max, thumbnail),
            Fit::Canvas { tile, most, enlarge } => grid::canvas(of, tile, most, enlarge),
            Fit::Slices { side, most, cell } => grid::slices(of, side, most, cell),
        };
        Ok(Tiling { views })
    }
}
