//! BMP.

use super::{ImageLimits, Raw, ReadFailure};
use crate::{orientation::Orientation, picture::PixelSize};
use zune_bmp::BmpDecoder;
use zune_core::{bytestream::ZCursor, options::DecoderOptions};

/// Reads the picture. The fourth byte of a pixel is alpha where any is set, and else has no meaning.
pub fn read(bytes: &[u8], limits: &ImageLimits) -> Result<Raw, ReadFailure> {
    let most = usize::try_from(i32::MAX).unwrap_or(usize::MAX);
    let options = DecoderOptions::new_safe().set_max_width(most).set_max_height(most);
    let mut decoder = BmpDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|e| ReadFailure::Damaged(format!("{e:?}")))?;
    let (width, height) = decoder.dimensions().unwrap_or_default();
    let size =
        PixelSize::new(u32::try_from(width).unwrap_or(u32::MAX), u32::try_from(height).unwrap_or(u32::MAX));
    limits.check(size)?;
    let mut samples = decoder.decode().map_err(|e| ReadFailure::Damaged(format!("{e:?}")))?;
    let channels = samples.len() / size.area() as usize;
    if channels == 4 && samples.chunks_exact(4).all(|pixel| pixel[3] == 0) {
        samples.chunks_exact_mut(4).for_each(|pixel| pixel[3] = 255);
    }
    Ok(Raw { size, samples, channels, orientation: Orientation::UPRIGHT, moves: false })
}
