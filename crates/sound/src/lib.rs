//! Floor ½: sound as the numbers that audio encoders take.
//!
//! Files are decoded to one channel ([`decode`]), brought to the encoder's rate by a windowed sinc ([`Sound::resampled`]), and
//! become log mel spectra as Whisper's feature extractor computes them ([`MelRule::features`]).
#![forbid(unsafe_code)]

pub mod decode;
mod error;
mod mel;
mod reader;
mod resample;
mod sound;
mod spectrum;

pub use decode::{SoundLimits, check_format, decode};
pub use error::SoundError;
pub use mel::{MelFeatures, MelRule};
pub use reader::SoundReader;
pub use sound::Sound;
