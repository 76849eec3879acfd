//! Pixels in memory.

use std::fmt;

/// Width and height in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PixelSize {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl PixelSize {
    /// A size of so many columns and rows.
    pub const fn new(width: u32, height: u32) -> PixelSize {
        PixelSize { width, height }
    }

    /// A size of equal sides.
    pub const fn square(side: u32) -> PixelSize {
        PixelSize::new(side, side)
    }

    /// Pixels in all.
    pub const fn area(self) -> u64 {
        self.width as u64 * self.height as u64
    }

    /// Width over height.
    pub fn aspect(self) -> f64 {
        f64::from(self.width) / f64::from(self.height)
    }
}

impl fmt::Display for PixelSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.width, self.height)
    }
}

/// A picture of 8-bit RGB, row by row from the top, without gaps.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    size: PixelSize,
    rgb: Vec<u8>,
}

impl Picture {
    /// A picture of three bytes a pixel; none where the bytes are not as many as the size says, or a side is zero.
    pub fn new(size: PixelSize, rgb: Vec<u8>) -> Option<Picture> {
        let right = size.area() > 0 && rgb.len() as u64 == size.area() * 3;
        right.then_some(Picture { size, rgb })
    }

    /// A picture whose rows are written one after the other; before, all samples are zero.
    pub(crate) fn by_rows(size: PixelSize, mut write: impl FnMut(u32, &mut [u8])) -> Picture {
        let mut rgb = vec![0; size.area() as usize * 3];
        for (row, y) in rgb.chunks_exact_mut(size.width as usize * 3).zip(0..) {
            write(y, row);
        }
        Picture { size, rgb }
    }

    /// Its width and height, neither of which is zero.
    pub fn size(&self) -> PixelSize {
        self.size
    }

    /// The bytes `[height][width][3]`.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// The bytes of row `y`.
    pub(crate) fn row(&self, y: u32) -> &[u8] {
        let stride = self.size.width as usize * 3;
        &self.rgb[y as usize * stride..][..stride]
    }

    /// The part of `size` whose left upper corner is at (`left`, `top`); it has to lie inside.
    pub(crate) fn part(&self, left: u32, top: u32, size: PixelSize) -> Picture {
        let bytes = left as usize * 3..(left + size.width) as usize * 3;
        Picture::by_rows(size, |y, row| row.copy_from_slice(&self.row(top + y)[bytes.clone()]))
    }

    /// A picture of one colour, with this one's left upper corner at (`left`, `top`); this one has to fit.
    pub(crate) fn padded(&self, left: u32, top: u32, size: PixelSize, colour: [u8; 3]) -> Picture {
        let bytes = left as usize * 3..(left + self.size.width) as usize * 3;
        Picture::by_rows(size, |y, row| {
            row.chunks_exact_mut(3).for_each(|pixel| pixel.copy_from_slice(&colour));
            if (top..top + self.size.height).contains(&y) {
                row[bytes.clone()].copy_from_slice(self.row(y - top));
            }
        })
    }
}

impl fmt::Debug for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a picture of {}", self.size)
    }
}
