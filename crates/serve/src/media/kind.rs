//! What a part that is no text holds, and what it is once it is read.

use crate::error::{ApiError, Cause};
use lamina::{
    Model,
    image::{self, Decoded, ImageError, Picture, RequestReader},
    sound::{self, Sound, SoundError, SoundReader},
};
use std::sync::Arc;

/// What a part that is no text holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaKind {
    /// A picture.
    Picture,
    /// A sound.
    Sound,
}

/// A picture or a sound, decoded.
#[derive(Debug, Clone, PartialEq)]
pub enum DecodedMedia {
    /// Pixels.
    Picture(Arc<Picture>),
    /// Samples.
    Sound(Arc<Sound>),
}

/// Reads the pictures and sounds of a request one after the other, within what is left of the limits.
pub struct MediaReader {
    pictures: Option<RequestReader>,
    sounds: SoundReader,
}

impl MediaKind {
    /// One of it, in messages.
    pub fn noun(self) -> &'static str {
        match self {
            MediaKind::Picture => "picture",
            MediaKind::Sound => "sound",
        }
    }

    /// The kind of a file that nothing says more of: what its first bytes tell, else what the model takes.
    pub fn guessed(begin: &[u8], model: &Model) -> MediaKind {
        let hears = model.hearing().is_some() && model.vision().is_none();
        let is_sound = || sound::check_format(begin).is_ok() || hears;
        if image::check_format(begin).is_err() && is_sound() { MediaKind::Sound } else { MediaKind::Picture }
    }

    /// Refuses a file that is no such thing, by its beginning.
    ///
    /// # Errors
    /// When its format is not read.
    pub fn check_format(self, begin: &[u8]) -> Result<(), ApiError> {
        match self {
            MediaKind::Picture => image::check_format(begin).map_err(ApiError::from),
            MediaKind::Sound => sound::check_format(begin).map_err(ApiError::from),
        }
    }

    /// What stands in a prompt where the model is to see or hear; none where it does not.
    pub fn marker(self, model: &Model) -> Option<&'static str> {
        match self {
            MediaKind::Picture => model.vision().map(|spec| spec.prompt.marker),
            MediaKind::Sound => model.hearing().map(|spec| spec.prompt.marker),
        }
    }

    /// Refuses it where the model does not see or hear.
    ///
    /// # Errors
    /// Then.
    pub fn check_model(self, model: &Model) -> Result<(), ApiError> {
        let why = match self {
            _ if self.marker(model).is_some() => return Ok(()),
            MediaKind::Sound => "this model does not hear: it takes no sounds",
            MediaKind::Picture if model.hearing().is_some() => "this model hears, but takes no pictures",
            MediaKind::Picture => {
                "this model takes text only; give --mmproj FILE where it has an encoder for pictures"
            }
        };
        Err(ApiError::invalid(why))
    }
}

impl DecodedMedia {
    /// What it is.
    pub fn kind(&self) -> MediaKind {
        match self {
            DecodedMedia::Picture(_) => MediaKind::Picture,
            DecodedMedia::Sound(_) => MediaKind::Sound,
        }
    }

    /// Bytes of its pixels or samples.
    pub fn bytes(&self) -> u64 {
        match self {
            DecodedMedia::Picture(picture) => picture.rgb().len() as u64,
            DecodedMedia::Sound(sound) => size_of_val(sound.samples()) as u64,
        }
    }
}

impl MediaReader {
    /// What the limits of a model leave at first.
    pub fn of(model: &Model) -> MediaReader {
        let pictures = model.image_limits().map(|limits| limits.reader());
        MediaReader { pictures, sounds: SoundReader::default() }
    }

    /// Most bytes of a file.
    pub fn most_bytes(&self, kind: MediaKind) -> usize {
        match kind {
            MediaKind::Picture => self.pictures.as_ref().map_or(0, RequestReader::most_bytes),
            MediaKind::Sound => self.sounds.limits().bytes,
        }
    }

    /// Bytes of memory that decoding a file takes, or so: of a picture by its header, of a sound by its length as MP3.
    pub fn need(&self, kind: MediaKind, bytes: &[u8]) -> usize {
        match kind {
            MediaKind::Picture => {
                let size = self.pictures.as_ref().and_then(|reader| reader.size(bytes));
                let area = size.map_or(0, |size| usize::try_from(size.area()).unwrap_or(usize::MAX));
                area.saturating_mul(EACH)
            }
            MediaKind::Sound => bytes.len().saturating_mul(GROWTH),
        }
    }

    /// The picture of a file, and whether it moves.
    ///
    /// # Errors
    /// When it is none, damaged, or beyond the limits.
    pub fn picture(&mut self, bytes: &[u8]) -> Result<Decoded, ApiError> {
        match &mut self.pictures {
            Some(reader) => Ok(reader.file(bytes)?),
            None => Err(ApiError::invalid("this model takes no pictures")),
        }
    }

    /// The sound of a file.
    ///
    /// # Errors
    /// When it is none, damaged, or beyond the limits.
    pub fn sound(&mut self, bytes: &[u8]) -> Result<Sound, ApiError> {
        Ok(self.sounds.file(bytes)?)
    }
}

/// Bytes that a pixel takes while a picture is decoded, laid over white and turned.
const EACH: usize = 10;
/// Bytes of samples for each of a file at 128 kbit/s, twice since they grow.
const GROWTH: usize = 24;

impl From<ImageError> for ApiError {
    fn from(error: ImageError) -> ApiError {
        refused(error.is_too_large(), error.to_string())
    }
}

impl From<SoundError> for ApiError {
    fn from(error: SoundError) -> ApiError {
        refused(error.is_too_large(), error.to_string())
    }
}

fn refused(too_large: bool, why: String) -> ApiError {
    ApiError::new(if too_large { Cause::TooLarge } else { Cause::Invalid }, why)
}
