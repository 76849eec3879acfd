//! Settings of Whisper's feature extractor, which the models that have its encoder share.

use crate::{
    error::{ArchError, Result},
    vision::VisionSource,
};
use lamina_sound::MelRule;

/// From samples to spectra; Whisper's own numbers where settings are missing.
///
/// # Errors
/// Settings that make no spectra for the encoder's bands.
pub fn mel(source: &VisionSource) -> Result<MelRule> {
    let p = &source.processor;
    let mels = source.encoder.usize("num_mel_bins")?;
    let own = MelRule::whisper(mels);
    let or = |key: &str, own: usize| -> Result<usize> { Ok(p.opt_usize(key)?.unwrap_or(own)) };
    let rule = MelRule {
        rate: or("sampling_rate", own.rate as usize)? as u32,
        window: or("n_fft", own.window)?,
        hop: or("hop_length", own.hop)?,
        piece: or("n_samples", own.piece)?,
        mels: or("feature_size", mels)?,
    };
    let sound = rule.mels == mels
        && rule.hop > 0
        && rule.window > 1
        && rule.window.is_multiple_of(2)
        && rule.piece >= rule.hop;
    sound.then_some(rule).ok_or_else(|| {
        ArchError::value("feature_extractor", format!("{rule:?}"), "a rule for the encoder's bands")
    })
}
