//! Samples of decoders as RGB: grey levels are repeated, and what is transparent lies over white.
//!
//! Colours under full transparency are noise that nobody has seen, so dropping the alpha channel would show it to a model.

/// Colours of `channels` (1: grey, 2: grey and alpha, 3: RGB, 4: RGBA) interleaved samples of 8 bits as RGB over white.
pub(crate) fn over_white(samples: Vec<u8>, channels: usize) -> Vec<u8> {
    match channels {
        1 => samples.iter().flat_map(|&grey| [grey; 3]).collect(),
        2 => samples.chunks_exact(2).flat_map(|p| [blend(p[0], p[1]); 3]).collect(),
        4 => samples.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]].map(|c| blend(c, p[3]))).collect(),
        _ => samples,
    }
}

/// A sample with its alpha over white, rounded to the nearest by the division that Pillow pastes with.
fn blend(sample: u8, alpha: u8) -> u8 {
    let sum = u32::from(sample) * u32::from(alpha) + 255 * u32::from(255 - alpha) + 128;
    (((sum >> 8) + sum) >> 8) as u8
}
