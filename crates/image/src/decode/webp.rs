//! WebP: lossy, lossless, with alpha, moving.

use super::{ImageLimits, Raw, ReadFailure};
use crate::{orientation::Orientation, picture::PixelSize};
use image_webp::WebPDecoder;
use std::io::Cursor;

/// Reads the picture, or the first frame of one that moves.
pub fn read(bytes: &[u8], limits: &ImageLimits) -> Result<Raw, ReadFailure> {
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(ReadFailure::of)?;
    let (width, height) = decoder.dimensions();
    let size = PixelSize::new(width, height);
    limits.check(size)?;
    decoder.set_memory_limit(limits.memory());
    let length = decoder.output_buffer_size().ok_or(ReadFailure::TooLarge(size))?;
    let mut samples = vec![0; length];
    let channels = if decoder.has_alpha() { 4 } else { 3 };
    let moves = decoder.is_animated();
    match moves {
        true => decoder.read_frame(&mut samples).map(|_| ()),
        false => decoder.read_image(&mut samples),
    }
    .map_err(ReadFailure::of)?;
    let exif = decoder.exif_metadata().ok().flatten();
    let orientation = exif.map_or(Orientation::UPRIGHT, |block| Orientation::of_exif(&block));
    Ok(Raw { size, samples, channels, orientation, moves: moves && decoder.num_frames() > 1 })
}
