//! Sounds of a prompt.

use crate::error::Result;
use lamina::{
    Model, SoundInput,
    sound::{Sound, SoundLimits},
};
use std::{path::PathBuf, sync::Arc};

/// Sounds beside a prompt.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SoundArgs {
    /// A sound (WAV, FLAC, MP3, Ogg Vorbis), which stands where the prompt has the model's marker, and before it where there
    /// is none; may be repeated
    #[arg(long, value_name = "FILE")]
    audio: Vec<PathBuf>,
}

impl SoundArgs {
    /// The sounds, as `model` takes them.
    ///
    /// # Errors
    /// When the model does not hear, or a sound cannot be read or is refused.
    pub fn read(&self, model: &Model) -> Result<Vec<Arc<Sound>>> {
        let names: Vec<String> = self.audio.iter().map(|path| path.display().to_string()).collect();
        let files = self.audio.iter().map(|path| SoundInput::File(path));
        Ok(model.read_sounds(names.iter().map(String::as_str).zip(files))?)
    }
}

/// Seconds of a sound, as in `30` or `1.5s`.
///
/// # Errors
/// What would be some.
pub fn seconds(text: &str) -> std::result::Result<f64, String> {
    let number = text.trim().strip_suffix('s').unwrap_or(text.trim()).parse().ok();
    let seconds = number.ok_or("must be seconds of sound, such as 30")?;
    SoundLimits::default().check_length(seconds).map_err(|e| e.to_string())?;
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn lengths_are_seconds() {
        assert_eq!((seconds("30"), seconds("1.5s")), (Ok(30.0), Ok(1.5)));
        for wrong in ["", "s", "0", "-1", "nan", "inf", "1801", "a.wav", "30ms"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
