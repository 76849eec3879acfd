//! WAV: integers of 8 to 32 bits and float32.

use super::{MonoMix, damaged};
use crate::{error::SoundError, sound::Sound};
use hound::{SampleFormat, WavReader};
use std::io::Cursor;

pub(super) fn decode(bytes: &[u8], seconds: u32) -> Result<Sound, SoundError> {
    let damaged = damaged("WAV");
    let mut reader = WavReader::new(Cursor::new(bytes)).map_err(|e| damaged(&e))?;
    let spec = reader.spec();
    let samples: Box<dyn Iterator<Item = Result<f32, hound::Error>>> = match spec.sample_format {
        SampleFormat::Float => Box::new(reader.samples::<f32>()),
        SampleFormat::Int => {
            let full = (1_u64 << (spec.bits_per_sample.clamp(1, 32) - 1)) as f32;
            Box::new(reader.samples::<i32>().map(move |s| s.map(|s| s as f32 / full)))
        }
    };
    let mut mixer = MonoMix::new(spec.sample_rate, usize::from(spec.channels), seconds);
    let mut frame = Vec::with_capacity(mixer.channels);
    for sample in samples {
        frame.push(sample.map_err(|e| damaged(&e))?);
        if frame.len() == mixer.channels {
            mixer.frame(frame.drain(..))?;
        }
    }
    mixer.sound()
}
