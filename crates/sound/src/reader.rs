//! The sounds of one request: each within its limits, and all of them together no longer than one may be.

use crate::{
    decode::{SoundLimits, decode},
    error::SoundError,
    sound::Sound,
};

/// Most sounds of a request.
const MOST: usize = 64;

/// Reads the sounds of a request one after the other.
#[derive(Debug, Clone)]
pub struct SoundReader {
    limits: SoundLimits,
    sounds: usize,
    /// Seconds that may still come.
    left: f64,
}

impl Default for SoundReader {
    fn default() -> SoundReader {
        SoundReader::new(SoundLimits::default())
    }
}

impl SoundReader {
    /// A reader of sounds of which each has at most the bytes of `limits`, and all together its seconds.
    pub fn new(limits: SoundLimits) -> SoundReader {
        SoundReader { limits, sounds: 0, left: f64::from(limits.seconds) }
    }

    /// What the next one may cost.
    pub fn limits(&self) -> SoundLimits {
        SoundLimits { seconds: self.left.ceil().max(1.0) as u32, ..self.limits }
    }

    /// The sound of a file.
    ///
    /// # Errors
    /// As for [`decode`]; also when it is one too many, or all are too long.
    pub fn file(&mut self, bytes: &[u8]) -> Result<Sound, SoundError> {
        self.one_more()?;
        let sound = decode(bytes, &self.limits()).map_err(|e| match e {
            SoundError::TooLong { .. } => self.too_long(),
            e => e,
        })?;
        self.counted(sound)
    }

    /// Samples of one channel that are in memory, and how many there are a second.
    ///
    /// # Errors
    /// As for [`Sound::new`]; also when it is one too many, or all are too long.
    pub fn samples(&mut self, samples: Vec<f32>, rate: u32) -> Result<Sound, SoundError> {
        self.one_more()?;
        let sound = Sound::new(samples, rate)?;
        self.counted(sound)
    }

    fn one_more(&mut self) -> Result<(), SoundError> {
        self.sounds += 1;
        match self.sounds > MOST {
            true => Err(SoundError::TooMany { limit: MOST }),
            false => Ok(()),
        }
    }

    fn counted(&mut self, sound: Sound) -> Result<Sound, SoundError> {
        self.left -= sound.seconds();
        match self.left < 0.0 {
            true => Err(self.too_long()),
            false => Ok(sound),
        }
    }

    fn too_long(&self) -> SoundError {
        let limit = self.limits.seconds;
        if self.sounds > 1 { SoundError::AllTooLong { limit } } else { SoundError::TooLong { limit } }
    }
}
