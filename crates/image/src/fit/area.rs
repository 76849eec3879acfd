//! Rules that keep a picture's aspect and bound how many cells it has.

use super::MAX_RATIO;
use crate::{
    cut::{Step, TileView},
    error::ImageError,
    picture::PixelSize,
};
use std::ops::RangeInclusive;

fn resized(size: PixelSize) -> Vec<TileView> {
    vec![TileView::whole(vec![Step::Resize(size)])]
}

fn too_thin(size: PixelSize) -> ImageError {
    ImageError::TooThin { size, ratio: MAX_RATIO }
}

/// Whole cells, half to even; where the area is beyond its bounds, all sides are scaled before they are rounded.
pub fn bounded(
    of: PixelSize,
    cell: u32,
    pixels: RangeInclusive<u64>,
    frames: u32,
) -> Result<Vec<TileView>, ImageError> {
    let of = if frames > 1 { enlarged(of, cell) } else { of };
    if f64::from(of.width.max(of.height)) / f64::from(of.width.min(of.height)) > f64::from(MAX_RATIO) {
        return Err(too_thin(of));
    }
    let by = f64::from(cell);
    let sides = |round: &dyn Fn(f64) -> f64| {
        let side = |side: u32| round(f64::from(side)) as u32 * cell;
        PixelSize::new(side(of.width), side(of.height))
    };
    let all = (u64::from(frames) * of.area()) as f64;
    let near = sides(&|side| (side / by).round_ties_even());
    let counted = u64::from(frames) * near.area();
    Ok(resized(if counted > *pixels.end() {
        let shrink = (all / *pixels.end() as f64).sqrt();
        sides(&|side| (side / shrink / by).floor().max(1.0))
    } else if counted < *pixels.start() {
        let grow = (*pixels.start() as f64 / all).sqrt();
        sides(&|side| (side * grow / by).ceil())
    } else {
        near
    }))
}

/// A picture that is narrower or lower than a cell, scaled until it is not.
fn enlarged(of: PixelSize, cell: u32) -> PixelSize {
    if of.width >= cell && of.height >= cell {
        return of;
    }
    let scale = (f64::from(cell) / f64::from(of.height)).max(f64::from(cell) / f64::from(of.width));
    let side = |side: u32| (f64::from(side) * scale) as u32;
    PixelSize::new(side(of.width).max(1), side(of.height).max(1))
}

/// The longer side bounded, then whole cells, rounded up.
pub fn long_side(of: PixelSize, longest: u32, cell: u32) -> Vec<TileView> {
    let ratio = f64::from(of.width.max(of.height)) / f64::from(longest);
    let side = |side: u32| {
        let side = if ratio > 1.0 { (f64::from(side) / ratio) as u32 } else { side };
        side.max(1).div_ceil(cell) * cell
    };
    resized(PixelSize::new(side(of.width), side(of.height)))
}

/// The largest size of whole cells within a number of cells.
pub fn budget(of: PixelSize, cell: u32, cells: u32) -> Result<Vec<TileView>, ImageError> {
    let factor = ((u64::from(cells) * u64::from(cell) * u64::from(cell)) as f64 / of.area() as f64).sqrt();
    let side = |side: u32| (factor * f64::from(side) / f64::from(cell)) as u32;
    let long = |long: u32, short: u32| (long / short).min(cells);
    let (width, height) = match (side(of.width), side(of.height)) {
        (0, 0) => return Err(too_thin(of)),
        (_, 0) => (long(of.width, of.height), 1),
        (0, _) => (1, long(of.height, of.width)),
        both => both,
    };
    Ok(resized(PixelSize::new(width * cell, height * cell)))
}
