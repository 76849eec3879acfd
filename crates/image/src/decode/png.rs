//! PNG and APNG.

use super::{ImageLimits, Raw, ReadFailure};
use crate::{orientation::Orientation, picture::PixelSize};
use png::{ColorType, Decoder, Transformations};
use std::io::Cursor;

/// 16-bit samples by their high byte; palettes and fewer bits expanded.
pub fn read(bytes: &[u8], limits: &ImageLimits) -> Result<Raw, ReadFailure> {
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: limits.memory() });
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let header = decoder.read_header_info().map_err(ReadFailure::of)?;
    let size = PixelSize::new(header.width, header.height);
    limits.check(size)?;
    let mut reader = decoder.read_info().map_err(ReadFailure::of)?;
    let length = reader.output_buffer_size().ok_or(ReadFailure::TooLarge(size))?;
    let mut samples = vec![0; length];
    let frame = reader.next_frame(&mut samples).map_err(ReadFailure::of)?;
    samples.truncate(frame.buffer_size());
    let moves = reader.info().animation_control().is_some_and(|control| control.num_frames > 1);
    let exif = reader.info().exif_metadata.as_deref();
    Ok(Raw {
        size,
        samples,
        channels: match frame.color_type {
            ColorType::Grayscale => 1,
            ColorType::GrayscaleAlpha => 2,
            ColorType::Rgb | ColorType::Indexed => 3,
            ColorType::Rgba => 4,
        },
        orientation: exif.map_or(Orientation::UPRIGHT, Orientation::of_exif),
        moves,
    })
}
