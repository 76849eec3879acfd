//! What sounds take.

use std::path::PathBuf;

/// What an encoder of sound takes beside a model.
#[derive(Debug, Clone, PartialEq)]
pub struct SoundForecast {
    /// Family of the encoder.
    pub encoder: &'static str,
    /// Its file, where it is not part of the model.
    pub file: Option<PathBuf>,
    /// Where it runs, where that is another device than the model's.
    pub device: Option<String>,
    /// Bytes of its weights.
    pub weights: u64,
    /// Bytes that it works in, for a whole piece.
    pub working: u64,
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
