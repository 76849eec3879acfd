//! What is wrong with a picture.

use crate::picture::PixelSize;

/// Why a picture cannot be read or taken. Messages never hold the picture itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The bytes are of no known format.
    #[error("this is no picture: give a PNG, JPEG, WebP, GIF or BMP file")]
    Unknown,
    /// The format is known and not read.
    #[error("{format} pictures are not read: {advice}")]
    Refused {
        /// Its usual name.
        format: &'static str,
        /// What to do instead.
        advice: &'static str,
    },
    /// The file breaks its format's rules, or ends early.
    #[error("the {format} file is damaged: {reason}")]
    Damaged {
        /// Its usual name.
        format: &'static str,
        /// What the decoder said.
        reason: String,
    },
    /// The file has more bytes than are allowed.
    #[error("the file has {bytes} bytes, {limit} are allowed")]
    TooManyBytes {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The picture is larger than allowed; it was not decoded.
    #[error(
        "the picture has {size} pixels, at most {pixels} in all and {side} on a side are allowed: make it smaller"
    )]
    TooLarge {
        /// Its size.
        size: PixelSize,
        /// Most pixels.
        pixels: usize,
        /// Longest side.
        side: u32,
    },
    /// The model does not take so thin a picture.
    #[error("the picture has {size} pixels: one side may be at most {ratio} times the other for this model")]
    TooThin {
        /// Its size.
        size: PixelSize,
        /// Largest ratio of the sides.
        ratio: u32,
    },
    /// More pictures than a request may have.
    #[error("there are more than {limit} pictures, which is the limit of a request: give fewer")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The pictures of a request have more pixels than are allowed.
    #[error(
        "the pictures have more than {limit} pixels in all, which is the limit of a request: make them smaller"
    )]
    TooManyPixels {
        /// The limit.
        limit: usize,
    },
    /// Bytes in memory that are not the pixels of a picture.
    #[error(
        "{bytes} bytes are no picture of {size} pixels of {channels} bytes: give 1 (grey), 2, 3 (RGB) or 4 of each pixel"
    )]
    Samples {
        /// The size.
        size: PixelSize,
        /// Bytes of a pixel.
        channels: usize,
        /// Bytes that there are.
        bytes: usize,
    },
}

impl ImageError {
    /// Whether a smaller picture, or fewer of them, would be taken.
    pub fn is_too_large(&self) -> bool {
        matches!(
            self,
            ImageError::TooManyBytes { .. }
                | ImageError::TooLarge { .. }
                | ImageError::TooMany { .. }
                | ImageError::TooManyPixels { .. }
        )
    }
}
