//! Files as pictures, within limits that are checked on the header, before memory is taken.

mod bmp;
mod gif;
mod jpeg;
mod png;
mod webp;

use crate::{
    error::ImageError,
    orientation::Orientation,
    picture::{Picture, PixelSize},
    white::over_white,
};

/// What a file and its picture may measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// Most bytes of a file.
    pub bytes: usize,
    /// Most pixels.
    pub pixels: usize,
    /// Longest side in pixels.
    pub side: u32,
}

/// A picture that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Upright, over white; of a file that moves its first frame.
    pub picture: Picture,
    /// The file has more frames, which were left out.
    pub moves: bool,
}

/// What a format's decoder gives.
struct Raw {
    size: PixelSize,
    samples: Vec<u8>,
    /// Samples of a pixel: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA.
    channels: usize,
    orientation: Orientation,
    moves: bool,
}

/// A format that is read.
struct FileFormat {
    name: &'static str,
    is: fn(&[u8]) -> bool,
    read: fn(&[u8], &ImageLimits) -> Result<Raw, ReadFailure>,
}

/// Why a decoder gave up.
enum ReadFailure {
    TooLarge(PixelSize),
    Damaged(String),
}

/// Formats by their first bytes: never by a name or a header that somebody sent with them.
const FORMATS: &[FileFormat] = &[
    FileFormat { name: "PNG", is: |b| b.starts_with(b"\x89PNG\r\n\x1a\n"), read: png::read },
    FileFormat { name: "JPEG", is: |b| b.starts_with(b"\xff\xd8\xff"), read: jpeg::read },
    FileFormat {
        name: "WebP",
        is: |b| b.starts_with(b"RIFF") && b.get(8..12) == Some(b"WEBP"),
        read: webp::read,
    },
    FileFormat { name: "GIF", is: |b| b.starts_with(b"GIF87a") || b.starts_with(b"GIF89a"), read: gif::read },
    FileFormat { name: "BMP", is: |b| b.starts_with(b"BM"), read: bmp::read },
];

const CONVERT: &str = "save the picture as PNG or JPEG";

/// Formats that people send and that are not read, with what to do.
#[allow(clippy::type_complexity)]
const REFUSED: &[(&str, fn(&[u8]) -> bool, &str)] = &[
    ("HEIC and AVIF", |b| b.get(4..8) == Some(b"ftyp"), CONVERT),
    ("TIFF", |b| b.starts_with(b"II*\0") || b.starts_with(b"MM\0*"), CONVERT),
    ("JPEG XL", |b| b.starts_with(b"\xff\x0a") || b.get(4..8) == Some(b"JXL "), CONVERT),
    ("SVG", is_svg, "draw it in the size that you want, and save it as PNG"),
    ("PDF", |b| b.starts_with(b"%PDF"), "save its pages as PNG"),
];

fn is_svg(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(1024)];
    let text = head.trim_ascii_start();
    text.starts_with(b"<svg") || text.starts_with(b"<?xml") && head.windows(4).any(|w| w == b"<svg")
}

impl Default for ImageLimits {
    /// 20 MiB, 64 million pixels, 16,384 on a side.
    fn default() -> ImageLimits {
        ImageLimits { bytes: 20 << 20, pixels: 64_000_000, side: 16_384 }
    }
}

impl ImageLimits {
    /// Whether a picture of that size is within them.
    pub(crate) fn holds(&self, size: PixelSize) -> bool {
        size.width.max(size.height) <= self.side && size.area() <= self.pixels as u64
    }

    /// Refuses a size before memory is taken for it.
    fn check(&self, size: PixelSize) -> Result<(), ReadFailure> {
        if size.area() == 0 {
            return Err(ReadFailure::Damaged(format!("it says that it has {size} pixels")));
        }
        if self.holds(size) { Ok(()) } else { Err(ReadFailure::TooLarge(size)) }
    }

    /// Bytes that a decoder may take.
    fn memory(&self) -> usize {
        self.pixels.saturating_mul(4).saturating_add(16 << 20)
    }
}

impl ReadFailure {
    fn of(error: impl std::fmt::Display) -> ReadFailure {
        ReadFailure::Damaged(error.to_string())
    }
}

/// The format of a file, by its first bytes.
fn format_of(bytes: &[u8]) -> Result<&'static FileFormat, ImageError> {
    let refused = || {
        let found = REFUSED.iter().find(|(_, is, _)| is(bytes));
        found.map_or(ImageError::Unknown, |&(format, _, advice)| ImageError::Refused { format, advice })
    };
    FORMATS.iter().find(|format| (format.is)(bytes)).ok_or_else(refused)
}

/// Refuses a file by its first kilobyte, where that is of no format that is read: before the rest of it has to be there.
///
/// # Errors
/// Then.
pub fn check_format(head: &[u8]) -> Result<(), ImageError> {
    format_of(head).map(|_| ())
}

/// Reads a picture of any format that is known.
///
/// # Errors
/// The bytes are no picture, are damaged or cut, of a format that is refused, or beyond the limits.
pub fn decode(bytes: &[u8], limits: &ImageLimits) -> Result<Decoded, ImageError> {
    if bytes.len() > limits.bytes {
        return Err(ImageError::TooManyBytes { bytes: bytes.len(), limit: limits.bytes });
    }
    let format = format_of(bytes)?;
    let raw = (format.read)(bytes, limits).map_err(|failure| match failure {
        ReadFailure::TooLarge(size) => {
            ImageError::TooLarge { size, pixels: limits.pixels, side: limits.side }
        }
        ReadFailure::Damaged(reason) => ImageError::Damaged { format: format.name, reason },
    })?;
    let size = raw.size;
    let picture = Picture::new(size, over_white(raw.samples, raw.channels));
    let damaged =
        || ImageError::Damaged { format: format.name, reason: format!("it has not the pixels of {size}") };
    Ok(Decoded { picture: raw.orientation.apply(picture.ok_or_else(damaged)?), moves: raw.moves })
}
