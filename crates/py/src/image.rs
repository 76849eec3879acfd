//! Pictures: paths, bytes of files, and pixels in memory. Python has told which is which.

use lamina::{
    ImageInput, Model, ReadImages, Result,
    image::{PixelSize, RawPixels},
};
use pyo3::{prelude::*, pybacked::PyBackedBytes};
use std::path::PathBuf;

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

/// The pictures of a request, within the limits of the model.
pub fn read(model: &Model, given: &[ImageArg]) -> Result<ReadImages> {
    model.read_images(given.iter().map(ImageArg::input))
}
