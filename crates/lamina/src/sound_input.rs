//! Sounds as they are given: files, bytes, and samples in memory.

use crate::{Error, Result, model::Model};
use lamina_base::files::read_regular;
use lamina_sound::{Sound, SoundLimits, decode};
use std::{fmt::Display, path::Path, sync::Arc};

/// Most sounds of a request.
const MOST: usize = 64;

/// A sound as somebody gives it.
#[derive(Debug, Clone)]
pub enum SoundInput<'a> {
    /// A file.
    File(&'a Path),
    /// The bytes of a file.
    Bytes(&'a [u8]),
    /// Samples of one channel, and how many there are a second.
    Samples(Vec<f32>, u32),
}

impl Model {
    /// Reads the sounds of a request, each with the name of the place where it was given, which errors begin with. All of them
    /// together may be as long as one.
    ///
    /// # Errors
    /// When the model does not hear, or a sound cannot be read, is of a format that is refused, or beyond the limits.
    pub fn read_sounds<'a>(
        &self,
        given: impl IntoIterator<Item = (&'a str, SoundInput<'a>)>,
    ) -> Result<Vec<Arc<Sound>>> {
        let mut limits = SoundLimits::default();
        let (longest, mut left) = (limits.seconds, f64::from(limits.seconds));
        let mut read = vec![];
        for (at, input) in given {
            self.need_sounds().map_err(|e| named(at, &e))?;
            if read.len() == MOST {
                return Err(named(at, &format!("a request has at most {MOST} sounds")));
            }
            let sound = one(input, &limits).map_err(|why| named(at, &why))?;
            left -= sound.seconds();
            if left < 0.0 {
                return Err(named(
                    at,
                    &format!("the sounds of a request are longer than {longest} seconds: cut them"),
                ));
            }
            limits.seconds = left.ceil().max(1.0) as u32;
            read.push(Arc::new(sound));
        }
        Ok(read)
    }
}

fn one(input: SoundInput<'_>, limits: &SoundLimits) -> std::result::Result<Sound, String> {
    let said = |e: lamina_sound::SoundError| e.to_string();
    match input {
        SoundInput::File(path) => {
            let bytes = read_regular(path, limits.bytes as u64);
            decode(&bytes.map_err(|e| format!("{} cannot be read: {e}", path.display()))?, limits)
                .map_err(said)
        }
        SoundInput::Bytes(bytes) => decode(bytes, limits).map_err(said),
        SoundInput::Samples(samples, rate) => Sound::new(samples, rate).map_err(said),
    }
}

fn named(at: &str, why: &dyn Display) -> Error {
    Error::InvalidRequest(format!("{at}: {why}"))
}
