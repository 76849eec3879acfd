//! The pictures of a request, from what was sent to pixels. Files that stand in the request are decoded beside the threads that read
//! requests; files at addresses are read before.

use super::HttpCall;
use crate::{
    error::{ApiError, Cause},
    media::{SentPicture, inline, is_inline, refused, shrunk},
    models::{Lease, LiveModel},
    run::PromptPicture,
};
use lamina::{
    UrlError,
    image::{Decoded, RequestReader},
};
use std::{sync::Arc, time::Duration};

/// Bytes that a pixel takes while a picture is decoded, laid over white and turned.
const EACH: usize = 10;
/// Pictures that take less are served by the memory that is kept back.
const SHORT: usize = 1 << 20;
/// When to come back to a server that has no memory left.
const LATER: Duration = Duration::from_secs(10);

/// Where the file of a picture is.
enum PictureFile {
    /// In the request.
    Inline(String),
    /// It was read from an address.
    Read(Vec<u8>),
}

impl HttpCall {
    /// The pictures that were sent, decoded, in their order.
    ///
    /// # Errors
    /// When the model takes text only, or one is no picture, beyond the limits, or cannot be read. Errors name its place.
    pub(super) async fn pictures(
        &self,
        lease: &Lease,
        sent: Vec<SentPicture>,
    ) -> Result<Vec<PromptPicture>, ApiError> {
        if sent.is_empty() {
            return Ok(vec![]);
        }
        takes_pictures(&lease.live, sent.first())?;
        let (mut reader, mut pictures) = (lease.live.model.image_reader()?, vec![]);
        for picture in sent {
            let at = picture.at.clone();
            let read = self.picture(lease, picture, reader).await;
            let (rest, picture) = read.map_err(|e| named(e, &at))?;
            reader = rest;
            pictures.push(picture);
        }
        Ok(pictures)
    }

    /// One of them, and what is left of the limits.
    async fn picture(
        &self,
        lease: &Lease,
        sent: SentPicture,
        mut reader: RequestReader,
    ) -> Result<(RequestReader, PromptPicture), ApiError> {
        let SentPicture { at, url, low } = sent;
        let (most, model) = (reader.most_bytes(), lease.live.model.clone());
        let file = self.file(url, most).await?;
        let decode = move || {
            let bytes = match file {
                PictureFile::Inline(url) => inline(&url, most)?,
                PictureFile::Read(bytes) => bytes,
            };
            has_room(&reader, &bytes)?;
            let Decoded { picture, moves } = reader.file(&bytes).map_err(refused)?;
            let picture = match model.vision().filter(|_| low) {
                Some(vision) => shrunk(vision, picture),
                None => picture,
            };
            Ok((reader, Arc::new(picture), moves))
        };
        let (reader, picture, moves) = self.app.pictures.run(decode).await?;
        // Until it is encoded, with what else large bodies hold.
        self.share().add(picture.rgb().len() as u64)?;
        self.log.entry().pictures.push(picture.size());
        if moves {
            self.name_ignored([format!("{at}: frames behind the first")]);
        }
        let tokens = lease.live.model.image_layout(&picture)?.rows();
        Ok((reader, PromptPicture { at, picture, tokens }))
    }

    /// The file of a picture.
    async fn file(&self, url: String, most: usize) -> Result<PictureFile, ApiError> {
        if is_inline(&url) {
            return Ok(PictureFile::Inline(url));
        }
        let held = most as u64;
        self.share().add(held)?;
        let read = self.app.urls.read(&url, most).await;
        self.share().take(held);
        match read {
            Some(Ok(bytes)) => Ok(PictureFile::Read(bytes)),
            Some(Err(UrlError::TooLarge(why))) => Err(ApiError::new(Cause::TooLarge, why)),
            Some(Err(UrlError::Refused(why))) => Err(ApiError::invalid(why)),
            None => Err(ApiError::invalid(
                "pictures are not read from addresses here: send a data: URL, or start the server with --allow-media-url HOST",
            )),
        }
    }
}

/// Refuses a picture for whose pixels there is no memory. Only its header is read.
fn has_room(reader: &RequestReader, bytes: &[u8]) -> Result<(), ApiError> {
    let Some(size) = reader.size(bytes) else { return Ok(()) };
    let need = usize::try_from(size.area()).unwrap_or(usize::MAX).saturating_mul(EACH);
    match need < SHORT || lamina_reserve::affordable(need) {
        true => Ok(()),
        false => Err(ApiError::unavailable("there is no memory for the pixels of this picture", LATER)),
    }
}

/// Refuses pictures where the model takes text only.
///
/// # Errors
/// Then.
pub(super) fn takes_pictures(live: &LiveModel, first: Option<&SentPicture>) -> Result<(), ApiError> {
    match first.filter(|_| live.model.vision().is_none()) {
        Some(first) => {
            let text = "this model takes text only; give --mmproj FILE where it has an encoder for pictures";
            Err(named(ApiError::invalid(text), &first.at))
        }
        None => Ok(()),
    }
}

/// The error, which says of which picture it is.
fn named(error: ApiError, at: &str) -> ApiError {
    ApiError { message: format!("{at}: {}", error.message), ..error }.of(at)
}
