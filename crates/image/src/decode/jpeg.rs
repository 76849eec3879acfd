//! JPEG: baseline and progressive, grey, YCbCr and CMYK.

use super::{ImageLimits, Raw, ReadFailure};
use crate::{orientation::Orientation, picture::PixelSize};
use jpeg_decoder::{Decoder, PixelFormat};

/// Reads the picture as grey levels or RGB.
///
/// Its chroma is enlarged as libjpeg does it, so pixels are within 3 of 255 of Pillow's. zune-jpeg is quicker, and rounds
/// between the two directions: 7.
pub fn read(bytes: &[u8], limits: &ImageLimits) -> Result<Raw, ReadFailure> {
    if !has_end(bytes) {
        return Err(ReadFailure::Damaged("it ends early".into()));
    }
    let mut decoder = Decoder::new(bytes);
    decoder.read_info().map_err(ReadFailure::of)?;
    let info = decoder.info().ok_or_else(|| ReadFailure::Damaged("it has no header".into()))?;
    let size = PixelSize::new(u32::from(info.width), u32::from(info.height));
    limits.check(size)?;
    decoder.set_max_decoding_buffer_size(limits.memory());
    let orientation = decoder.exif_data().map_or(Orientation::UPRIGHT, Orientation::of_exif);
    let samples = decoder.decode().map_err(ReadFailure::of)?;
    let (samples, channels) = match info.pixel_format {
        PixelFormat::L8 => (samples, 1),
        // Big-endian words behind this decoder are the machine's own.
        PixelFormat::L16 => (
            samples.chunks_exact(2).map(|word| u16::from_ne_bytes([word[0], word[1]])).map(high).collect(),
            1,
        ),
        PixelFormat::RGB24 => (samples, 3),
        PixelFormat::CMYK32 => {
            (samples.chunks_exact(4).flat_map(|p| of_inks([p[0], p[1], p[2], p[3]])).collect(), 3)
        }
    };
    Ok(Raw { size, samples, channels, orientation, moves: false })
}

/// The high byte of a 16-bit sample.
fn high(sample: u16) -> u8 {
    (sample >> 8) as u8
}

/// Red, green and blue of cyan, magenta, yellow and black, as Pillow makes them: without a profile of the inks.
fn of_inks([cyan, magenta, yellow, black]: [u8; 4]) -> [u8; 3] {
    let light = 255 - black;
    [cyan, magenta, yellow].map(|ink| {
        let product = u32::from(ink) * u32::from(light) + 128;
        light.saturating_sub((((product >> 8) + product) >> 8) as u8)
    })
}

/// True where the last scan is followed by an end of image. Decoders fill what is missing with grey, and a model would
/// describe that.
fn has_end(bytes: &[u8]) -> bool {
    let last = |marker: [u8; 2]| bytes.windows(2).rposition(|pair| pair == marker);
    last([0xff, 0xd9]) > last([0xff, 0xda])
}
