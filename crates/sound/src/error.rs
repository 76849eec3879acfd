//! What is wrong with a sound.

/// Why a sound cannot be read or taken. Messages never hold the sound itself.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SoundError {
    /// The bytes are of no known format.
    #[error("this is no sound: give a WAV, FLAC, MP3 or Ogg Vorbis file")]
    Unknown,
    /// The format is known and not read.
    #[error("{format} sound is not read: {advice}")]
    Refused {
        /// Its usual name.
        format: &'static str,
        /// What to do instead.
        advice: &'static str,
    },
    /// The file breaks its format's rules, or ends early.
    #[error("the {format} file is damaged: {reason}")]
    Damaged {
        /// Its usual name.
        format: &'static str,
        /// What the decoder said.
        reason: String,
    },
    /// The file has more bytes than are allowed.
    #[error("the file has {bytes} bytes, {limit} are allowed")]
    TooManyBytes {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The sound is longer than allowed; the rest was not decoded.
    #[error("the sound is longer than {limit} seconds: cut it")]
    TooLong {
        /// Most seconds.
        limit: u32,
    },
    /// The sounds of a request together are longer than allowed.
    #[error("the sounds of a request are longer than {limit} seconds: cut them")]
    AllTooLong {
        /// Most seconds.
        limit: u32,
    },
    /// A request has more sounds than are allowed.
    #[error("a request has at most {limit} sounds")]
    TooMany {
        /// Most sounds.
        limit: usize,
    },
    /// Samples a second that no device has.
    #[error("a sound of {rate} samples a second is not read: 1,000 to 768,000 are")]
    Rate {
        /// Samples a second.
        rate: u32,
    },
    /// There is no sample.
    #[error("the sound is empty")]
    Empty,
    /// A sample is infinite or not a number.
    #[error("sample {at} of the sound is no finite number")]
    NotFinite {
        /// Its index.
        at: usize,
    },
}

impl SoundError {
    /// Whether a smaller or shorter one would be taken.
    pub fn is_too_large(&self) -> bool {
        use SoundError::{AllTooLong, TooLong, TooMany, TooManyBytes};
        matches!(self, TooManyBytes { .. } | TooLong { .. } | AllTooLong { .. } | TooMany { .. })
    }
}
