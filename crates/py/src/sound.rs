//! Sounds: paths, bytes of files, and samples in memory. Python has told which is which.

use lamina::{Error, Model, Result, SoundInput, sound::Sound};
use pyo3::{prelude::*, pybacked::PyBackedBytes};
use std::{path::PathBuf, sync::Arc};

/// Where a sound was given, what holds it, and of samples in float32 how many there are a second.
#[derive(FromPyObject)]
pub struct SoundArg(String, SoundHolder, Option<u32>);

/// A path, or bytes.
#[derive(FromPyObject)]
enum SoundHolder {
    Bytes(PyBackedBytes),
    Path(PathBuf),
}

impl SoundArg {
    fn input(&self) -> (&str, SoundInput<'_>) {
        let SoundArg(name, holder, rate) = self;
        let input = match (holder, rate) {
            (SoundHolder::Path(path), _) => SoundInput::File(path),
            (SoundHolder::Bytes(bytes), None) => SoundInput::Bytes(bytes),
            (SoundHolder::Bytes(bytes), Some(rate)) => {
                let (samples, _) = bytes.as_chunks();
                SoundInput::Samples(samples.iter().map(|&four| f32::from_le_bytes(four)).collect(), *rate)
            }
        };
        (name, input)
    }
}

/// One sound, within the limits.
pub fn one(model: &Model, given: SoundArg) -> Result<Arc<Sound>> {
    let none = || Error::InvalidRequest("there is no sound".into());
    read(model, &[given])?.pop().ok_or_else(none)
}

/// The sounds of a request, within the limits.
pub fn read(model: &Model, given: &[SoundArg]) -> Result<Vec<Arc<Sound>>> {
    model.read_sounds(given.iter().map(SoundArg::input))
}
