//! Pictures: paths, bytes of files, and pixels in memory. Python has told which is which.

use lamina::{
    Error, ImageInput, Model, ReadImages, Result,
    image::{Picture, PixelSize, RawPixels},
};
use pyo3::{prelude::*, pybacked::PyBackedBytes};
use std::{path::PathBuf, sync::Arc};

/// Where a picture was given, what holds it, and of pixels their form.
#[derive(FromPyObject)]
pub struct ImageArg(String, Holder, Option<Form>);

/// A path, or bytes.
#[derive(FromPyObject)]
enum Holder {
    Bytes(PyBackedBytes),
    Path(PathBuf),
}

/// Width, height, bytes of a pixel, and EXIF's number of how it is turned.
type Form = (u32, u32, usize, u16);

impl ImageArg {
    fn input(&self) -> (&str, ImageInput<'_>) {
        let ImageArg(name, holder, form) = self;
        let input = match (holder, form) {
            (Holder::Path(path), _) => ImageInput::File(path),
            (Holder::Bytes(bytes), None) => ImageInput::Bytes(bytes),
            (Holder::Bytes(bytes), &Some((width, height, channels, orientation))) => {
                let size = PixelSize::new(width, height);
                ImageInput::Pixels(RawPixels { size, channels, samples: bytes.to_vec(), orientation })
            }
        };
        (name, input)
    }
}

/// One picture, within the limits of the model.
pub fn one(model: &Model, given: ImageArg) -> Result<Arc<Picture>> {
    let none = || Error::InvalidRequest("there is no picture".into());
    read(model, &[given])?.images.pop().ok_or_else(none)
}

/// The pictures of a request, within the limits of the model.
pub fn read(model: &Model, given: &[ImageArg]) -> Result<ReadImages> {
    model.read_images(given.iter().map(ImageArg::input))
}
