//! The pictures and sounds of a request, from what was sent to pixels and samples. Files that stand in the request are decoded
//! beside the threads that read requests; files at addresses are read before.

use super::HttpCall;
use crate::{
    error::{ApiError, Cause},
    media::{DecodedMedia, MediaKind, MediaReader, SentMedia, inline, is_inline, shrunk},
    models::{Lease, LiveModel},
    run::PromptMedia,
};
use lamina::{Model, UrlError};
use std::{sync::Arc, time::Duration};

/// Those that take less are served by the memory that is kept back.
const SHORT: usize = 1 << 20;
/// When to come back to a server that has no memory left.
const LATER: Duration = Duration::from_secs(10);

/// Where the file of a picture or a sound is.
enum MediaFile {
    /// In the request.
    Inline(String),
    /// It was read from an address.
    Read(Vec<u8>),
}

impl HttpCall {
    /// The pictures and sounds that were sent, decoded, in their order.
    ///
    /// # Errors
    /// When the model does not take them, or one is none, beyond the limits, or cannot be read. Errors name its place.
    pub(super) async fn media(
        &self,
        lease: &Lease,
        sent: Vec<SentMedia>,
    ) -> Result<Vec<PromptMedia>, ApiError> {
        takes_media(&lease.live, &sent)?;
        let (mut reader, mut media) = (MediaReader::of(&lease.live.model), vec![]);
        for one in sent {
            let at = one.at.clone();
            let read = self.one(lease, one, reader).await;
            let (rest, one) = read.map_err(|e| named(e, &at))?;
            reader = rest;
            media.push(one);
        }
        Ok(media)
    }

    /// One of them, and what is left of the limits.
    async fn one(
        &self,
        lease: &Lease,
        sent: SentMedia,
        mut reader: MediaReader,
    ) -> Result<(MediaReader, PromptMedia), ApiError> {
        let SentMedia { kind, at, url, low } = sent;
        let (most, model) = (reader.most_bytes(kind), lease.live.model.clone());
        let file = self.file(url, most, kind).await?;
        let decode = move || {
            let bytes = match file {
                MediaFile::Inline(url) => inline(&url, most, kind)?,
                MediaFile::Read(bytes) => bytes,
            };
            has_room(&reader, kind, &bytes)?;
            let (decoded, moves) = decoded(&mut reader, (kind, low), &model, &bytes)?;
            Ok((reader, decoded, moves))
        };
        let (reader, decoded, moves) = self.app.media.run(decode).await?;
        // Until it is encoded, with what else large bodies hold.
        self.share().add(decoded.bytes())?;
        match &decoded {
            DecodedMedia::Picture(picture) => self.log.entry().pictures.push(picture.size()),
            DecodedMedia::Sound(sound) => self.log.entry().sounds.push(sound.seconds()),
        }
        if moves {
            self.name_ignored([format!("{at}: frames behind the first")]);
        }
        let tokens = match &decoded {
            DecodedMedia::Picture(picture) => lease.live.model.image_layout(picture)?.rows(),
            DecodedMedia::Sound(sound) => lease.live.model.sound_tokens(sound)?,
        };
        Ok((reader, PromptMedia { at, decoded, tokens }))
    }

    /// The file of a picture or a sound.
    async fn file(&self, url: String, most: usize, kind: MediaKind) -> Result<MediaFile, ApiError> {
        if is_inline(&url) {
            return Ok(MediaFile::Inline(url));
        }
        let held = most as u64;
        self.share().add(held)?;
        let read = self.app.urls.read(&url, most).await;
        self.share().take(held);
        match read {
            Some(Ok(bytes)) => Ok(MediaFile::Read(bytes)),
            Some(Err(UrlError::TooLarge(why))) => Err(ApiError::new(Cause::TooLarge, why)),
            Some(Err(UrlError::Refused(why))) => Err(ApiError::invalid(why)),
            None => Err(ApiError::invalid(format!(
                "{}s are not read from addresses here: send a data: URL, or start the server with --allow-media-url HOST",
                kind.noun()
            ))),
        }
    }
}

/// The picture or sound of a file, and whether it moves.
fn decoded(
    reader: &mut MediaReader,
    (kind, low): (MediaKind, bool),
    model: &Model,
    bytes: &[u8],
) -> Result<(DecodedMedia, bool), ApiError> {
    if kind == MediaKind::Sound {
        return Ok((DecodedMedia::Sound(Arc::new(reader.sound(bytes)?)), false));
    }
    let read = reader.picture(bytes)?;
    let picture = match model.vision().filter(|_| low) {
        Some(vision) => shrunk(vision, read.picture),
        None => read.picture,
    };
    Ok((DecodedMedia::Picture(Arc::new(picture)), read.moves))
}

/// Refuses a file for whose pixels or samples there is no memory.
fn has_room(reader: &MediaReader, kind: MediaKind, bytes: &[u8]) -> Result<(), ApiError> {
    let need = reader.need(kind, bytes);
    match need < SHORT || lamina_reserve::affordable(need) {
        true => Ok(()),
        false => {
            let text = match kind {
                MediaKind::Picture => "there is no memory for the pixels of this picture",
                MediaKind::Sound => "there is no memory for the samples of this sound",
            };
            Err(ApiError::unavailable(text, LATER))
        }
    }
}

/// Refuses pictures and sounds where the model does not take them.
///
/// # Errors
/// Then, of the first one.
pub(super) fn takes_media(live: &LiveModel, sent: &[SentMedia]) -> Result<(), ApiError> {
    let checked = |one: &SentMedia| one.kind.check_model(&live.model).map_err(|e| named(e, &one.at));
    sent.iter().try_for_each(checked)
}

/// The error, which says of which part it is.
fn named(error: ApiError, at: &str) -> ApiError {
    ApiError { message: format!("{at}: {}", error.message), ..error }.of(at)
}
