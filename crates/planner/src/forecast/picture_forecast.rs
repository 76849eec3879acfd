//! What pictures take.

use std::path::PathBuf;

/// What an encoder of pictures takes beside a model.
#[derive(Debug, Clone, PartialEq)]
pub struct PictureForecast {
    /// Family of the encoder.
    pub encoder: &'static str,
    /// Its file, where it is not part of the model.
    pub file: Option<PathBuf>,
    /// Where it runs, where that is another device than the model's.
    pub device: Option<String>,
    /// Bytes of its weights.
    pub weights: u64,
    /// Bytes that it works in, for the picture that was asked about or a usual one.
    pub working: u64,
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
