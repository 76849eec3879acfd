//! GIF: the first frame on its screen.

use super::{ImageLimits, Raw, ReadFailure};
use crate::{orientation::Orientation, picture::PixelSize};
use gif::{ColorOutput, DecodeOptions, Frame, MemoryLimit};
use std::{io::Cursor, num::NonZeroU64};

/// Reads the first frame; what of the screen it does not cover is transparent.
pub fn read(bytes: &[u8], limits: &ImageLimits) -> Result<Raw, ReadFailure> {
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::RGBA);
    options.set_memory_limit(
        NonZeroU64::new(limits.memory() as u64).map_or(MemoryLimit::Unlimited, MemoryLimit::Bytes),
    );
    let mut decoder = options.read_info(Cursor::new(bytes)).map_err(ReadFailure::of)?;
    let size = PixelSize::new(u32::from(decoder.width()), u32::from(decoder.height()));
    limits.check(size)?;
    let frame = decoder.read_next_frame().map_err(ReadFailure::of)?;
    let samples = on_screen(size, frame.ok_or_else(|| ReadFailure::Damaged("it has no frame".into()))?);
    let moves = matches!(decoder.next_frame_info(), Ok(Some(_)));
    Ok(Raw { size, samples, channels: 4, orientation: Orientation::UPRIGHT, moves })
}

/// The screen `[height][width][4]` with the part of a frame that lies inside.
fn on_screen(size: PixelSize, frame: &Frame<'_>) -> Vec<u8> {
    let mut screen = vec![0; size.area() as usize * 4];
    let (left, top) = (usize::from(frame.left), usize::from(frame.top));
    let width = usize::from(frame.width).min((size.width as usize).saturating_sub(left)) * 4;
    let rows = screen.chunks_exact_mut(size.width as usize * 4).skip(top);
    for (row, line) in rows.zip(frame.buffer.chunks_exact(usize::from(frame.width).max(1) * 4)) {
        row[left.min(size.width as usize) * 4..][..width].copy_from_slice(&line[..width]);
    }
    screen
}
