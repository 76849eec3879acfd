//! Pictures of weights: too many marks for a drawing.

use base64::{Engine as _, prelude::BASE64_STANDARD};

/// A blue that is seen on light and on dark ground.
const BLUE: [u8; 3] = [62, 124, 214];

/// A square picture as PNG: each pixel blue, as opaque as its weight. Half the weight is seen as more than half, so that
/// small ones do not vanish.
pub(super) fn tinted(side: usize, weights: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    let opaque = |w: usize| (255.0 * (w as f64 / 255.0).sqrt()) as u8;
    let mut encoder = png::Encoder::new(&mut out, side as u32, side as u32);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(BLUE.repeat(256));
    encoder.set_trns((0..256).map(opaque).collect::<Vec<u8>>());
    encoder.set_compression(png::Compression::High);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(weights));
    if written.is_err() {
        // A picture of nothing has no size that could be written.
        out.clear();
    }
    out
}

/// A PNG as an address that holds all of it.
pub(super) fn address(png: &[u8]) -> String {
    format!("data:image/png;base64,{}", BASE64_STANDARD.encode(png))
}
