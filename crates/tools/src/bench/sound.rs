//! What the parts of hearing a sound take: reading the file, its spectrum, encoding, and the prompt behind it.

use super::media::{MediaReport, MediaSubject, MediaTimes, file_bytes, noise_bytes, rounds};
use lamina::{
    Error, GenerateOptions, LoadOptions, Model, Result,
    sound::{Sound, SoundError, SoundLimits, SoundReader},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

/// The sound that is measured.
#[derive(Debug, Clone, PartialEq)]
pub enum BenchSound {
    /// Noise of so many seconds.
    Noise(f64),
    /// A file, whose decoding is measured too.
    File(PathBuf),
}

/// Measures a sound `repeat` times after a warm-up; `note` is told what is done.
///
/// # Errors
/// When the model cannot be loaded or does not hear, or the sound cannot be read.
pub fn sounds(
    path: Option<&Path>,
    load: &LoadOptions,
    of: &BenchSound,
    repeat: usize,
    note: &mut dyn FnMut(&str),
) -> Result<MediaReport> {
    note("loading");
    let model = Model::load_with(path, load, &|_, _| true)?;
    let deaf = || Error::InvalidRequest("this model does not hear: it takes no sounds".into());
    let spec = model.hearing().ok_or_else(deaf)?;
    note("sounds");
    let take = |i: usize, sound: &Sound, times: &mut MediaTimes| hear(&model, &other(sound, i)?, times);
    let (sound, times) = match of {
        BenchSound::Noise(seconds) => rounds(repeat, |_| noise(*seconds, spec.mel.rate), take)?,
        BenchSound::File(file) => {
            let bytes = file_bytes(file, SoundLimits::default().bytes)?;
            let decode = || SoundReader::default().file(&bytes).map_err(refused);
            rounds(repeat, |times| times.part("decode", decode), take)?
        }
    };
    let layout = spec.layout(&sound);
    Ok(MediaReport {
        info: model.info().clone(),
        subject: MediaSubject::Sound { seconds: layout.seconds, encoded: layout.encoded() },
        tokens: layout.rows(),
        times,
    })
}

fn hear(model: &Model, sound: &Arc<Sound>, times: &mut MediaTimes) -> Result<()> {
    model.sound_tokens(sound)?;
    let begin = Instant::now();
    let features = model.hearing().map(|spec| spec.mel.features(sound)).transpose();
    let spectrum = begin.elapsed().as_secs_f64();
    drop(features.map_err(refused)?);
    let options = GenerateOptions { max_tokens: Some(1), sounds: vec![sound.clone()], ..Default::default() };
    // Encoding makes it, too.
    times.answered(model, &options, ("spectrum", spectrum))
}

fn refused(e: SoundError) -> Error {
    Error::InvalidRequest(e.to_string())
}

/// Noise that is the same everywhere.
fn noise(seconds: f64, rate: u32) -> Result<Sound> {
    SoundLimits::default().check_length(seconds).map_err(refused)?;
    let samples = (seconds * f64::from(rate)) as usize;
    let samples = noise_bytes().take(samples).map(|byte| f32::from(byte) / 256.0 - 0.5).collect();
    Sound::new(samples, rate).map_err(refused)
}

/// The same sound with another first sample: rows that are kept would be found.
fn other(sound: &Sound, by: usize) -> Result<Arc<Sound>> {
    let mut samples = sound.samples().to_vec();
    samples[0] += by as f32 / 256.0;
    Sound::new(samples, sound.rate()).map(Arc::new).map_err(refused)
}
