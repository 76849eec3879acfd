//! What pictures take.

use super::EncoderForecast;

/// What an encoder of pictures takes beside a model.
#[derive(Debug, Clone, PartialEq)]
pub struct PictureForecast {
    /// The encoder itself.
    pub encoder: EncoderForecast,
    /// The picture that was asked about.
    pub picture: Option<PictureSize>,
}

/// What a picture takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureSize {
    /// Its width and height in pixels.
    pub size: (u32, u32),
    /// Those in which the encoder sees it.
    pub resized: (u32, u32),
    /// Patches of all its tiles.
    pub patches: usize,
    /// Tokens of a prompt.
    pub tokens: usize,
    /// Bytes of its rows.
    pub row_bytes: u64,
}
