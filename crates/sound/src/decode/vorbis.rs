//! Ogg Vorbis, by the `lewton` crate.

use super::{MonoMix, damaged};
use crate::{error::SoundError, sound::Sound};
use lewton::inside_ogg::OggStreamReader;
use std::io::Cursor;

pub(super) fn decode(bytes: &[u8], seconds: u32) -> Result<Sound, SoundError> {
    let damaged = damaged("Ogg Vorbis");
    let mut reader = OggStreamReader::new(Cursor::new(bytes)).map_err(|e| damaged(&e))?;
    let header = &reader.ident_hdr;
    let mut mixer = MonoMix::new(header.audio_sample_rate, usize::from(header.audio_channels), seconds);
    while let Some(packet) = reader.read_dec_packet_generic::<Vec<Vec<f32>>>().map_err(|e| damaged(&e))? {
        for at in 0..packet.first().map_or(0, Vec::len) {
            mixer.frame(packet.iter().map(|channel| channel[at]))?;
        }
    }
    mixer.sound()
}
