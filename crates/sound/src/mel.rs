//! Log mel features as Whisper's feature extractor computes them.

use crate::{
    error::SoundError,
    sound::Sound,
    spectrum::{Spectrum, frames_of},
};

/// Smallest energy whose logarithm is taken.
const FLOOR: f64 = 1e-10;
/// Features further below the largest one are raised, in powers of ten.
const RANGE: f64 = 8.0;

/// How a sound becomes features: the keys of `WhisperFeatureExtractor` in a processor's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MelRule {
    /// Samples a second (`sampling_rate`); others are resampled.
    pub rate: u32,
    /// Samples of a window (`n_fft`), even.
    pub window: usize,
    /// Samples from one window to the next (`hop_length`).
    pub hop: usize,
    /// Bands (`feature_size`).
    pub mels: usize,
    /// Samples of a piece (`n_samples`): shorter sounds are followed by silence, longer ones are several pieces.
    pub piece: usize,
}

impl MelRule {
    /// Whisper's own: 16 kHz, windows of 25 ms every 10 ms, pieces of 30 s; 80 bands, or 128 of its third edition.
    pub fn whisper(mels: usize) -> MelRule {
        MelRule { rate: 16_000, window: 400, hop: 160, mels, piece: 480_000 }
    }

    /// Features of each piece of a sound.
    ///
    /// # Errors
    /// The rule's rate is none that sounds have.
    pub fn features(&self, sound: &Sound) -> Result<Vec<MelFeatures>, SoundError> {
        let sound = sound.resampled(self.rate)?;
        let filters = MelFilters::new(self);
        let spectrum = Spectrum::new(self.window, self.hop);
        Ok(sound.samples().chunks(self.piece).map(|piece| self.piece(piece, &spectrum, &filters)).collect())
    }

    fn piece(&self, samples: &[f32], spectrum: &Spectrum, filters: &MelFilters) -> MelFeatures {
        let mut padded = samples.to_vec();
        padded.resize(self.piece, 0.0);
        let frames = frames_of(self.piece, self.hop);
        let mut logs = vec![0.0; self.mels * frames];
        for (frame, power) in spectrum.frames(&padded).take(frames).enumerate() {
            filters.bands(&power).enumerate().for_each(|(mel, energy)| {
                logs[mel * frames + frame] = energy.max(FLOOR).log10();
            });
        }
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max) - RANGE;
        let values = logs.into_iter().map(|log| ((log.max(most) + 4.0) / 4.0) as f32).collect();
        MelFeatures { mels: self.mels, frames, heard: frames_of(samples.len(), self.hop), values }
    }
}

/// Features of a piece of a sound.
#[derive(Clone, Debug, PartialEq)]
pub struct MelFeatures {
    /// Bands.
    pub mels: usize,
    /// Frames of the piece.
    pub frames: usize,
    /// Frames that begin inside the sound; behind them is the silence that fills the piece.
    pub heard: usize,
    /// `[mels x frames]`, row by row.
    pub values: Vec<f32>,
}

/// Triangles over the frequencies of a spectrum, evenly spaced on Slaney's scale, each of area one.
struct MelFilters {
    /// For each band its first frequency and its weights from there.
    bands: Vec<(usize, Vec<f64>)>,
}

impl MelFilters {
    fn new(rule: &MelRule) -> MelFilters {
        let half = f64::from(rule.rate) / 2.0;
        let (first, last) = (to_mel(0.0), to_mel(half));
        let edge = |i: usize| to_hertz(first + (last - first) * i as f64 / (rule.mels + 1) as f64);
        let hertz = |bin: usize| bin as f64 * f64::from(rule.rate) / rule.window as f64;
        let band = |mel: usize| {
            let [low, centre, high] = [edge(mel), edge(mel + 1), edge(mel + 2)];
            let weight = |bin: usize| {
                let f = hertz(bin);
                let rising = (f - low) / (centre - low);
                let falling = (high - f) / (high - centre);
                rising.min(falling).max(0.0) * 2.0 / (high - low)
            };
            let all: Vec<f64> = (0..=rule.window / 2).map(weight).collect();
            let begin = all.iter().position(|&w| w > 0.0).unwrap_or(0);
            let end = all.iter().rposition(|&w| w > 0.0).map_or(0, |i| i + 1);
            (begin, all[begin.min(end)..end].to_vec())
        };
        MelFilters { bands: (0..rule.mels).map(band).collect() }
    }

    /// The energy of each band.
    fn bands<'a>(&'a self, power: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        let band = |(first, weights): &(usize, Vec<f64>)| {
            weights.iter().zip(&power[*first..]).map(|(weight, energy)| weight * energy).sum()
        };
        self.bands.iter().map(band)
    }
}

/// Slaney's scale: even up to 1,000 Hz, logarithmic above (Auditory Toolbox, 1998).
const EVEN_HERTZ: f64 = 200.0 / 3.0;
const BREAK_HERTZ: f64 = 1_000.0;
const BREAK_MEL: f64 = BREAK_HERTZ / EVEN_HERTZ;

/// Growth of the frequency from one step to the next above the break.
fn log_step() -> f64 {
    6.4_f64.ln() / 27.0
}

fn to_mel(hertz: f64) -> f64 {
    if hertz < BREAK_HERTZ { hertz / EVEN_HERTZ } else { BREAK_MEL + (hertz / BREAK_HERTZ).ln() / log_step() }
}

fn to_hertz(mel: f64) -> f64 {
    if mel < BREAK_MEL { mel * EVEN_HERTZ } else { BREAK_HERTZ * ((mel - BREAK_MEL) * log_step()).exp() }
}
