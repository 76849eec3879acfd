//! FLAC, by the `claxon` crate.

use super::{MonoMix, damaged};
use crate::{error::SoundError, sound::Sound};
use claxon::FlacReader;
use std::io::Cursor;

pub(super) fn decode(bytes: &[u8], seconds: u32) -> Result<Sound, SoundError> {
    let damaged = damaged("FLAC");
    let mut reader = FlacReader::new(Cursor::new(bytes)).map_err(|e| damaged(&e))?;
    let info = reader.streaminfo();
    let full = (1_u64 << (info.bits_per_sample.clamp(1, 32) - 1)) as f32;
    let mut mixer = MonoMix::new(info.sample_rate, info.channels as usize, seconds);
    let mut blocks = reader.blocks();
    let mut buffer = vec![];
    while let Some(block) = blocks.read_next_or_eof(buffer).map_err(|e| damaged(&e))? {
        for at in 0..block.duration() {
            mixer.frame((0..block.channels()).map(|channel| block.sample(channel, at) as f32 / full))?;
        }
        buffer = block.into_buffer();
    }
    mixer.sound()
}
