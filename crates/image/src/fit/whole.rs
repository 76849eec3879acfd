//! Rules that take a picture whole, in one size.

use super::PanAndScan;
use crate::{
    cut::{Region, Step, TileView},
    picture::PixelSize,
};

/// Resized to one size; crops of long pictures behind it.
pub fn exact(of: PixelSize, size: PixelSize, crops: Option<PanAndScan>) -> Vec<TileView> {
    let crops = crops.map_or(vec![], |rule| rule.crops(of));
    let part = |region: Region| TileView::whole(vec![Step::Crop(region), Step::Resize(size)]);
    std::iter::once(TileView::whole(vec![Step::Resize(size)])).chain(crops.into_iter().map(part)).collect()
}

/// The shorter side resized, then the middle.
pub fn center(of: PixelSize, short: u32, crop: PixelSize) -> Vec<TileView> {
    let long = |long: u32, of_short: u32| (f64::from(short) * f64::from(long) / f64::from(of_short)) as u32;
    let size = match of.width <= of.height {
        true => PixelSize::new(short, long(of.height, of.width)),
        false => PixelSize::new(long(of.width, of.height), short),
    };
    let canvas = PixelSize::new(size.width.max(crop.width), size.height.max(crop.height));
    // Padding is rounded up on the left and above, cropping down.
    let (left, top) = ((canvas.width - size.width).div_ceil(2), (canvas.height - size.height).div_ceil(2));
    let middle = |canvas: u32, size: u32, crop: u32, pad: u32| {
        let start = (i64::from(size) - i64::from(crop)).div_euclid(2) + i64::from(pad);
        start.clamp(0, i64::from(canvas - crop)) as u32
    };
    let region = Region {
        left: middle(canvas.width, size.width, crop.width, left),
        top: middle(canvas.height, size.height, crop.height, top),
        size: crop,
    };
    vec![TileView::whole(vec![
        Step::Resize(size),
        Step::Pad { left, top, canvas, colour: [0; 3] },
        Step::Crop(region),
    ])]
}

/// Padded to a square in its middle, then resized.
pub fn square(of: PixelSize, side: u32, colour: [u8; 3]) -> Vec<TileView> {
    let canvas = PixelSize::square(of.width.max(of.height));
    let (left, top) = ((canvas.width - of.width) / 2, (canvas.height - of.height) / 2);
    vec![TileView::whole(vec![
        Step::Pad { left, top, canvas, colour },
        Step::Resize(PixelSize::square(side)),
    ])]
}

impl PanAndScan {
    /// Equal parts along the longer side; none of a picture that is not long enough, or whose parts would be too small.
    fn crops(self, of: PixelSize) -> Vec<Region> {
        let (long, short) = (of.width.max(of.height), of.width.min(of.height));
        let ratio = f64::from(long) / f64::from(short);
        if ratio < self.ratio {
            return vec![];
        }
        let count = ((ratio + 0.5) as u32).min(long / self.min_side).max(2).min(self.most).max(1);
        let length = long.div_ceil(count);
        if length.min(short) < self.min_side {
            return vec![];
        }
        let part = |i: u32| {
            let (start, length) = (i * length, length.min(long - (i * length).min(long)));
            match of.width >= of.height {
                true => Region { left: start, top: 0, size: PixelSize::new(length, short) },
                false => Region { left: 0, top: start, size: PixelSize::new(short, length) },
            }
        };
        (0..count).map(part).filter(|region| region.size.area() > 0).collect()
    }
}
