//! Sounds as they are given: files, bytes, and samples in memory.

use crate::{Error, Result, model::Model};
use lamina_base::files::read_regular;
use lamina_sound::{Sound, SoundReader};
use std::{fmt::Display, path::Path, sync::Arc};

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
        let (mut reader, mut read) = (SoundReader::default(), vec![]);
        for (at, input) in given {
            self.need_sounds().map_err(|e| named(at, &e))?;
            read.push(Arc::new(one(input, &mut reader).map_err(|why| named(at, &why))?));
        }
        Ok(read)
    }
}

fn one(input: SoundInput<'_>, reader: &mut SoundReader) -> std::result::Result<Sound, String> {
    let read = match input {
        SoundInput::File(path) => {
            let bytes = read_regular(path, reader.limits().bytes as u64);
            reader.file(&bytes.map_err(|e| format!("{} cannot be read: {e}", path.display()))?)
        }
        SoundInput::Bytes(bytes) => reader.file(bytes),
        SoundInput::Samples(samples, rate) => reader.samples(samples, rate),
    };
    read.map_err(|e| e.to_string())
}

fn named(at: &str, why: &dyn Display) -> Error {
    Error::InvalidRequest(format!("{at}: {why}"))
}
