//! Other bounds on the rows of a picture than a family's own, where its rule has any.

use super::spec::VisionSpec;
use crate::error::{ArchError, Result};
use lamina_image::{Fit, PanAndScan, PixelSize};

/// Names of the bounds, as a user gives them.
const MIN: &str = "image_min_tokens";
const MAX: &str = "image_max_tokens";

impl VisionSpec {
    /// The same with at least `min` rows for a picture and at most `max`, but for what rounding to whole cells takes; none keeps
    /// the family's own bound.
    ///
    /// # Errors
    /// The family's rule has no such bound, or its smallest pictures have more rows than `max`.
    pub fn bounded(mut self, min: Option<usize>, max: Option<usize>) -> Result<VisionSpec> {
        if let Some(max) = max.filter(|&max| max < self.max_rows()) {
            let fit = |size: u32| at_most(&self.pixels.fit, size);
            let rows = |size: u32| self.rows_of(&fit(size));
            let found = (1..=size(&self.pixels.fit)).rev().find(|&size| rows(size) <= max);
            let least =
                || ArchError::value(MAX, max, format!("at least {}, which all pictures have", rows(1)));
            self.pixels.fit = fit(found.ok_or_else(least)?);
        }
        let most = self.max_rows();
        match (min, &mut self.pixels.fit) {
            (None, _) => {}
            (Some(min), Fit::Area { cell, min: pixels, frames, .. }) if min <= most => {
                *pixels = area(min, *cell, *frames);
            }
            (Some(min), Fit::Area { .. }) => {
                return Err(ArchError::value(MIN, min, format!("at most {most}, which no picture is above")));
            }
            (Some(min), _) => {
                let want = "left out: this model has no lower bound for pictures";
                return Err(ArchError::value(MIN, min, want));
            }
        }
        Ok(self)
    }

    /// Most rows of a picture, but for what rounding to whole cells takes.
    pub fn max_rows(&self) -> usize {
        self.rows_of(&self.pixels.fit)
    }

    /// How the tokens of a picture follow from its size, in a few words.
    pub fn token_rule(&self) -> String {
        let square = |side: u32| self.tile_cells(PixelSize::square(side)).cells();
        match &self.pixels.fit {
            Fit::Exact { size, crops: None } => {
                format!("{} for each picture", self.tile_cells(*size).cells())
            }
            Fit::Exact { size, crops: Some(crops) } => {
                format!(
                    "{} for the picture, and for each of up to {} crops",
                    self.tile_cells(*size).cells(),
                    crops.most
                )
            }
            Fit::Center { crop, .. } => format!("{} for each picture", self.tile_cells(*crop).cells()),
            Fit::Square { side, .. } => format!("{} for each picture", square(*side)),
            Fit::Area { cell, .. } | Fit::LongSide { cell, .. } => format!("1 for {cell} x {cell} pixels"),
            Fit::Budget { patch, pool, .. } => format!("1 for {0} x {0} pixels", patch * pool),
            Fit::Pinpoints { tile, .. } | Fit::Split { tile, .. } | Fit::Canvas { tile, .. } => {
                format!("{} for each tile of {tile} x {tile} pixels, and for the whole", square(*tile))
            }
            Fit::Aspect { tile, .. } => {
                format!(
                    "{} for each tile of {tile} pixels, and for the whole",
                    self.tile_cells(*tile).cells()
                )
            }
            Fit::Slices { cell, .. } => format!("1 for {cell} x {cell} pixels of slices, and of the whole"),
        }
    }

    fn rows_of(&self, fit: &Fit) -> usize {
        let tile = |size: PixelSize| self.tile_cells(size).cells();
        let square = |side: u32| tile(PixelSize::square(side));
        // Several tiles are followed by the whole.
        let beside = |tiles: u32, whole: bool| (tiles + u32::from(whole && tiles > 1)) as usize;
        match fit {
            Fit::Exact { size, crops } => tile(*size) * crops.map_or(1, |crops| crops.most as usize + 1),
            Fit::Center { crop, .. } => tile(*crop),
            Fit::Square { side, .. } => square(*side),
            Fit::Area { cell, max, frames, .. } => (*max / area(1, *cell, *frames)) as usize,
            Fit::LongSide { longest, cell } => longest.div_ceil(*cell).pow(2) as usize,
            Fit::Budget { cells, .. } => *cells as usize,
            Fit::Pinpoints { tile, canvases } => {
                let one = self.tile_cells(PixelSize::square(*tile));
                let joined = |canvas: &PixelSize| {
                    let (across, down) = (canvas.width.div_ceil(*tile), canvas.height.div_ceil(*tile));
                    one.rows * down as usize * (one.columns * across as usize + 1)
                };
                one.cells() + canvases.iter().map(joined).max().unwrap_or(0)
            }
            Fit::Split { longest, tile, tiles } => {
                let side = if *tiles { longest.div_ceil(*tile) } else { 1 };
                square(*tile) * beside(side * side, true)
            }
            Fit::Aspect { tile: size, max, thumbnail, .. } => tile(*size) * beside(*max, *thumbnail),
            Fit::Canvas { tile, most, .. } => square(*tile) * beside(*most, true),
            Fit::Slices { side, most, cell } => square(side / cell * cell) * beside(*most, true),
        }
    }
}

/// What of a rule makes its largest pictures large, as a number from 1.
fn size(fit: &Fit) -> u32 {
    match fit {
        Fit::Exact { crops, .. } => crops.map_or(1, |crops| crops.most + 1),
        Fit::Center { .. } | Fit::Square { .. } => 1,
        Fit::Area { cell, max, frames, .. } => (*max / area(1, *cell, *frames)) as u32,
        Fit::LongSide { longest, cell } => longest.div_ceil(*cell),
        Fit::Budget { cells, .. } => *cells,
        Fit::Pinpoints { tile, canvases } => {
            canvases.iter().map(|canvas| canvas_tiles(*canvas, *tile)).max().unwrap_or(1)
        }
        Fit::Split { longest, tile, tiles } => {
            if *tiles {
                longest.div_ceil(*tile)
            } else {
                1
            }
        }
        Fit::Aspect { max, .. } => *max,
        Fit::Canvas { most, .. } | Fit::Slices { most, .. } => *most,
    }
}

/// The rule with that number at most `to`.
fn at_most(fit: &Fit, to: u32) -> Fit {
    let mut fit = fit.clone();
    match &mut fit {
        // One crop would be the picture itself.
        Fit::Exact { crops, .. } => {
            *crops = crops.filter(|_| to > 2).map(|crops| PanAndScan { most: to - 1, ..crops });
        }
        Fit::Center { .. } | Fit::Square { .. } => {}
        Fit::Area { cell, min, max, frames } => {
            *max = area(to as usize, *cell, *frames);
            *min = (*min).min(*max);
        }
        Fit::LongSide { longest, cell } => *longest = (*longest).min(to * *cell),
        Fit::Budget { cells, .. } => *cells = to,
        Fit::Pinpoints { tile, canvases } => canvases.retain(|canvas| canvas_tiles(*canvas, *tile) <= to),
        Fit::Split { longest, tile, .. } => *longest = (*longest).min(to * *tile),
        Fit::Aspect { min, max, .. } => (*min, *max) = ((*min).min(to), to),
        Fit::Canvas { most, .. } | Fit::Slices { most, .. } => *most = to,
    }
    fit
}

fn canvas_tiles(canvas: PixelSize, tile: u32) -> u32 {
    canvas.width.div_ceil(tile) * canvas.height.div_ceil(tile)
}

/// Pixels of so many rows, over all frames.
fn area(rows: usize, cell: u32, frames: u32) -> u64 {
    rows as u64 * u64::from(cell) * u64::from(cell) * u64::from(frames)
}
