//! What sounds take.

use super::EncoderForecast;

/// What an encoder of sound takes beside a model.
#[derive(Debug, Clone, PartialEq)]
pub struct SoundForecast {
    /// The encoder itself.
    pub encoder: EncoderForecast,
    /// The sound that was asked about.
    pub sound: Option<SoundSize>,
}

/// What a sound takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoundSize {
    /// Its length.
    pub seconds: f64,
    /// Pieces that are encoded one by one, and their rows.
    pub encoded: (usize, usize),
    /// Tokens of a prompt.
    pub tokens: usize,
    /// Bytes of its rows.
    pub row_bytes: u64,
}
