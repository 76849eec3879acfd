//! MP3, by the `nanomp3` crate; encoder's delay and padding are cut off where the file names them.

use super::{MonoMix, damaged};
use crate::{error::SoundError, sound::Sound};
use nanomp3::SliceReader;

/// A tag at the beginning, or frames that follow one another.
pub(super) fn is(bytes: &[u8]) -> bool {
    bytes.starts_with(b"ID3") || nanomp3::detect(bytes)
}

pub(super) fn decode(bytes: &[u8], seconds: u32) -> Result<Sound, SoundError> {
    let damaged = damaged("MP3");
    let mut reader: SliceReader<'_, f32> = SliceReader::new(bytes);
    let mut mixer: Option<MonoMix> = None;
    loop {
        let (rate, channels) = (reader.sample_rate(), reader.channels().map_or(1, |c| c as usize));
        let Some(frame) = reader.read_frame().map_err(|e| damaged(&e))? else { break };
        mixer.get_or_insert_with(|| MonoMix::new(rate, channels, seconds)).interleaved(frame)?;
    }
    mixer.ok_or_else(|| damaged(&"it has no whole frame"))?.sound()
}
