//! Sounds of a prompt.

use crate::error::Result;
use lamina::{Model, SoundInput, sound::Sound};
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
