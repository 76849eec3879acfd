//! What encoders take.

use std::path::PathBuf;

/// What an encoder of pictures or sound takes beside a model.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderForecast {
    /// Its family.
    pub name: &'static str,
    /// Its file, where it is not part of the model.
    pub file: Option<PathBuf>,
    /// Where it runs, where that is another device than the model's.
    pub device: Option<String>,
    /// Bytes of its weights.
    pub weights: u64,
    /// Bytes that it works in: for the picture that was asked about or a usual one, and for a whole piece of a sound.
    pub working: u64,
}
