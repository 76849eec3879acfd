//! Pictures as they are given: files, bytes, and pixels in memory.

use crate::{Error, Result, model::Model};
use lamina_base::files::read_regular;
use lamina_image::{ImageError, Picture, RawPixels, RequestReader};
use std::{fmt::Display, path::Path, sync::Arc};

/// A picture as somebody gives it.
#[derive(Debug, Clone)]
pub enum ImageInput<'a> {
    /// A file.
    File(&'a Path),
    /// The bytes of a file.
    Bytes(&'a [u8]),
    /// Pixels.
    Pixels(RawPixels),
}

/// The pictures of a request.
#[derive(Debug, Clone, Default)]
pub struct ReadImages {
    /// In their order.
    pub images: Vec<Arc<Picture>>,
    /// What somebody who gave them should know.
    pub notes: Vec<String>,
}

impl Model {
    /// Reads the pictures of a request, each with the name of the place where it was given, which errors begin with.
    ///
    /// # Errors
    /// When the model takes text only, or a picture cannot be read, is of a format that is refused, or beyond the limits.
    pub fn read_images<'a>(
        &self,
        given: impl IntoIterator<Item = (&'a str, ImageInput<'a>)>,
    ) -> Result<ReadImages> {
        let mut read = ReadImages::default();
        let mut reader: Option<RequestReader> = None;
        for (at, input) in given {
            let reader = match &mut reader {
                Some(reader) => reader,
                none => none.insert(self.image_reader().map_err(|e| named(at, &e))?),
            };
            let refused = |e: ImageError| named(at, &e);
            let decoded = match input {
                ImageInput::File(path) => {
                    let bytes = read_regular(path, reader.most_bytes() as u64);
                    let bytes =
                        bytes.map_err(|e| named(at, &format!("{} cannot be read: {e}", path.display())))?;
                    reader.file(&bytes).map_err(refused)?
                }
                ImageInput::Bytes(bytes) => reader.file(bytes).map_err(refused)?,
                ImageInput::Pixels(raw) => {
                    read.images.push(Arc::new(reader.pixels(raw).map_err(refused)?));
                    continue;
                }
            };
            if decoded.moves {
                read.notes.push(format!("{at} moves: its first frame is seen"));
            }
            read.images.push(Arc::new(decoded.picture));
        }
        Ok(read)
    }
}

fn named(at: &str, why: &dyn Display) -> Error {
    Error::InvalidRequest(format!("{at}: {why}"))
}
