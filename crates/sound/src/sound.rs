//! Samples of one channel.

use crate::{error::SoundError, resample::Resampler};

/// Samples a second that are read.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=768_000;

/// One channel of samples, most of them within -1 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Sound {
    samples: Vec<f32>,
    rate: u32,
}

impl Sound {
    /// Samples of one channel at `rate` samples a second.
    ///
    /// # Errors
    /// There are none, one is not finite, or the rate is none that devices have.
    pub fn new(samples: Vec<f32>, rate: u32) -> Result<Sound, SoundError> {
        if !RATES.contains(&rate) {
            return Err(SoundError::Rate { rate });
        }
        if samples.is_empty() {
            return Err(SoundError::Empty);
        }
        match samples.iter().position(|s| !s.is_finite()) {
            Some(at) => Err(SoundError::NotFinite { at }),
            None => Ok(Sound { samples, rate }),
        }
    }

    /// The samples.
    pub fn samples(&self) -> &[f32] {
        &self.samples
    }

    /// Samples a second.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.samples.len() as f64 / f64::from(self.rate)
    }

    /// How many samples it has at another rate.
    pub fn len_at(&self, rate: u32) -> usize {
        (self.samples.len() as u64 * u64::from(rate)).div_ceil(u64::from(self.rate)) as usize
    }

    /// The same sound with `rate` samples a second: what lies above half of the lower rate is gone, nothing is folded back.
    ///
    /// # Errors
    /// The rate is none that devices have.
    pub fn resampled(&self, rate: u32) -> Result<Sound, SoundError> {
        if rate == self.rate {
            return Ok(self.clone());
        }
        if !RATES.contains(&rate) {
            return Err(SoundError::Rate { rate });
        }
        Sound::new(Resampler::new(self.rate, rate).run(&self.samples), rate)
    }
}
