//! The pictures of one request: each within its limits, and all of them within theirs.

use crate::{
    decode::{Decoded, ImageLimits, decode},
    error::ImageError,
    orientation::Orientation,
    picture::{Picture, PixelSize},
    white::over_white,
};

/// What the pictures of a request may measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Each of them.
    pub each: ImageLimits,
    /// Most pixels of all together.
    pub pixels: usize,
    /// Most pictures.
    pub count: usize,
}

impl Default for RequestLimits {
    /// 64 pictures, 256 million pixels together.
    fn default() -> RequestLimits {
        RequestLimits { each: ImageLimits::default(), pixels: 256_000_000, count: 64 }
    }
}

impl RequestLimits {
    /// Reads the pictures of a request.
    pub fn reader(&self) -> RequestReader {
        RequestReader { limits: *self, pictures: 0, pixels: 0 }
    }
}

/// Reads the pictures of a request one after the other.
#[derive(Debug, Clone)]
pub struct RequestReader {
    limits: RequestLimits,
    pictures: usize,
    pixels: usize,
}

/// Samples in memory, row by row from the top, without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawPixels {
    /// Width and height.
    pub size: PixelSize,
    /// Bytes of a pixel: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA.
    pub channels: usize,
    /// The bytes.
    pub samples: Vec<u8>,
    /// EXIF's number of what has to be done to stand upright, from 1 (nothing) to 8.
    pub orientation: u16,
}

impl RequestReader {
    /// Most bytes of a file.
    pub fn most_bytes(&self) -> usize {
        self.limits.each.bytes
    }

    /// The size of the picture of a file, by its header alone; none where that is beyond the limits, or no picture.
    pub fn size(&self, bytes: &[u8]) -> Option<PixelSize> {
        let nothing = ImageLimits { bytes: usize::MAX, pixels: 0, side: u32::MAX };
        match decode(bytes, &nothing) {
            Err(ImageError::TooLarge { size, .. }) if self.limits.each.holds(size) => Some(size),
            _ => None,
        }
    }

    /// The picture of a file.
    ///
    /// # Errors
    /// As for [`decode`]; also when it is one too many, or all have too many pixels.
    pub fn file(&mut self, bytes: &[u8]) -> Result<Decoded, ImageError> {
        self.one_more()?;
        let left = self.limits.pixels - self.pixels;
        let each = self.limits.each;
        let limits = ImageLimits { pixels: each.pixels.min(left), ..each };
        let read = decode(bytes, &limits).map_err(|e| match e {
            ImageError::TooLarge { size, .. } if each.holds(size) => self.too_many_pixels(),
            ImageError::TooLarge { size, .. } => {
                ImageError::TooLarge { size, pixels: each.pixels, side: each.side }
            }
            e => e,
        })?;
        self.pixels += read.picture.size().area() as usize;
        Ok(read)
    }

    /// A picture that is in memory.
    ///
    /// # Errors
    /// It has not the bytes that its size says, or is beyond the limits.
    pub fn pixels(&mut self, raw: RawPixels) -> Result<Picture, ImageError> {
        self.one_more()?;
        let (size, each) = (raw.size, self.limits.each);
        if !each.holds(size) {
            return Err(ImageError::TooLarge { size, pixels: each.pixels, side: each.side });
        }
        if size.area() > (self.limits.pixels - self.pixels) as u64 {
            return Err(self.too_many_pixels());
        }
        let RawPixels { channels, samples, orientation, .. } = raw;
        let wrong = ImageError::Samples { size, channels, bytes: samples.len() };
        if !(1..=4).contains(&channels) || samples.len() as u64 != size.area() * channels as u64 {
            return Err(wrong);
        }
        let picture = Picture::new(size, over_white(samples, channels)).ok_or(wrong)?;
        self.pixels += size.area() as usize;
        Ok(Orientation::of_number(orientation).apply(picture))
    }

    fn one_more(&mut self) -> Result<(), ImageError> {
        self.pictures += 1;
        match self.pictures > self.limits.count {
            true => Err(ImageError::TooMany { limit: self.limits.count }),
            false => Ok(()),
        }
    }

    fn too_many_pixels(&self) -> ImageError {
        ImageError::TooManyPixels { limit: self.limits.pixels }
    }
}
