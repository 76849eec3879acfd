//! Files to samples of one channel, within limits: bytes are counted before anything is read, seconds while it is.

mod flac;
mod mp3;
mod vorbis;
mod wav;

use crate::{error::SoundError, sound::Sound};

/// What a file may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoundLimits {
    /// Most bytes of the file.
    pub bytes: usize,
    /// Most seconds of sound; a minute at 48 kHz takes 11.5 MB of memory.
    pub seconds: u32,
}

impl Default for SoundLimits {
    /// 64 MiB and 30 minutes.
    fn default() -> SoundLimits {
        SoundLimits { bytes: 64 << 20, seconds: 1_800 }
    }
}

impl SoundLimits {
    /// Whether a sound may be of so many `seconds`, before there is one.
    ///
    /// # Errors
    /// It is longer than allowed, or nothing.
    pub fn check_length(&self, seconds: f64) -> Result<(), SoundError> {
        match seconds {
            s if s > f64::from(self.seconds) => Err(SoundError::TooLong { limit: self.seconds }),
            s if s > 0.0 => Ok(()),
            _ => Err(SoundError::Empty),
        }
    }
}

/// The mean of all channels of a file, whose format is told by its first bytes.
///
/// # Errors
/// No known format, a damaged file, or one above the limits.
pub fn decode(bytes: &[u8], limits: &SoundLimits) -> Result<Sound, SoundError> {
    if bytes.len() > limits.bytes {
        return Err(SoundError::TooManyBytes { bytes: bytes.len(), limit: limits.bytes });
    }
    decoder(bytes)?(bytes, limits.seconds)
}

/// Whether a file that begins like this is of a format that is read; 16 KiB of it will do.
///
/// # Errors
/// No known format, or one that is not read.
pub fn check_format(begin: &[u8]) -> Result<(), SoundError> {
    decoder(begin).map(drop)
}

fn decoder(begin: &[u8]) -> Result<Decoder, SoundError> {
    let format = FORMATS.iter().find(|format| (format.is)(begin)).ok_or(SoundError::Unknown)?;
    match format.how {
        How::Decode(run) => Ok(run),
        How::Refuse(advice) => Err(SoundError::Refused { format: format.name, advice }),
    }
}

/// The sound of a file, if it has no more seconds than these.
type Decoder = fn(&[u8], u32) -> Result<Sound, SoundError>;

struct SoundFormat {
    name: &'static str,
    is: fn(&[u8]) -> bool,
    how: How,
}

enum How {
    Decode(Decoder),
    /// What to do instead.
    Refuse(&'static str),
}

const CONVERT: &str = "convert it to WAV, FLAC, MP3 or Ogg Vorbis";

/// By what files of a format begin with; MP3 has no first bytes of its own, so it comes last.
const FORMATS: &[SoundFormat] = &[
    SoundFormat {
        name: "WAV",
        is: |b| begins(b, 0, b"RIFF") && begins(b, 8, b"WAVE"),
        how: How::Decode(wav::decode),
    },
    SoundFormat { name: "FLAC", is: |b| begins(b, 0, b"fLaC"), how: How::Decode(flac::decode) },
    SoundFormat {
        name: "Ogg Opus",
        is: |b| begins(b, 0, b"OggS") && begins(b, 28, b"OpusHead"),
        how: How::Refuse(CONVERT),
    },
    SoundFormat { name: "Ogg Vorbis", is: |b| begins(b, 0, b"OggS"), how: How::Decode(vorbis::decode) },
    SoundFormat { name: "MP4 (AAC)", is: |b| begins(b, 4, b"ftyp"), how: How::Refuse(CONVERT) },
    SoundFormat { name: "WebM", is: |b| begins(b, 0, b"\x1a\x45\xdf\xa3"), how: How::Refuse(CONVERT) },
    SoundFormat {
        name: "AIFF",
        is: |b| begins(b, 0, b"FORM") && begins(b, 8, b"AIF"),
        how: How::Refuse(CONVERT),
    },
    SoundFormat { name: "MP3", is: mp3::is, how: How::Decode(mp3::decode) },
];

fn begins(bytes: &[u8], at: usize, with: &[u8]) -> bool {
    bytes.get(at..).is_some_and(|rest| rest.starts_with(with))
}

/// Samples of one channel while they come, with the limit that they count against.
struct MonoMix {
    samples: Vec<f32>,
    rate: u32,
    channels: usize,
    seconds: u32,
}

impl MonoMix {
    fn new(rate: u32, channels: usize, seconds: u32) -> MonoMix {
        MonoMix { samples: vec![], rate, channels: channels.max(1), seconds }
    }

    /// Adds the mean of all channels.
    fn frame(&mut self, channels: impl Iterator<Item = f32>) -> Result<(), SoundError> {
        if self.samples.len() as u64 >= u64::from(self.seconds) * u64::from(self.rate) {
            return Err(SoundError::TooLong { limit: self.seconds });
        }
        self.samples.push(channels.sum::<f32>() / self.channels as f32);
        Ok(())
    }

    /// Adds frames whose channels follow one another; a last frame that is cut off is left out.
    fn interleaved(&mut self, samples: &[f32]) -> Result<(), SoundError> {
        samples.chunks_exact(self.channels).try_for_each(|frame| self.frame(frame.iter().copied()))
    }

    fn sound(self) -> Result<Sound, SoundError> {
        Sound::new(self.samples, self.rate)
    }
}

/// What a decoder said, as an error that names the format.
fn damaged(format: &'static str) -> impl Fn(&dyn std::fmt::Display) -> SoundError {
    move |reason| SoundError::Damaged { format, reason: reason.to_string() }
}
