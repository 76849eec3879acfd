//! What pictures and sounds have in common: something becomes rows of a prompt by an encoder on a backend.

use super::{eyes::Eyes, picture_rows::PictureRows};
use crate::error::{Error, Result};
use lamina_arch::vision::{VisionSource, VisionSpec};
use lamina_engine::EncodedRows;
use lamina_image::Picture;
use lamina_plan::Backend;
use std::fmt;

/// An encoder of one kind of thing, with what its queue and its cache have to know.
pub trait Sense: Sized + 'static {
    /// What it is, as data.
    type Spec: Clone + fmt::Debug + Send + Sync + 'static;
    /// What it takes.
    type Input: Send + Sync + 'static;
    /// What it gives.
    type Rows: EncodedRows + 'static;
    /// What it takes, in messages.
    const NAME: &'static str;

    /// Puts the encoder of `source` on `backend`.
    ///
    /// # Errors
    /// When a weight is missing or broken, or the backend cannot run it.
    fn of(source: &VisionSource, spec: Self::Spec, backend: &dyn Backend) -> Result<Self>;

    /// Whether it can take an input.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(_spec: &Self::Spec, _input: &Self::Input) -> Result<()> {
        Ok(())
    }

    /// How the content of an input lies: two of the same content in the same form are the same.
    fn form(input: &Self::Input) -> String;

    /// Adds the content of an input to `out`.
    fn content(input: &Self::Input, out: &mut Vec<u8>);

    /// Rows that the blocks have for an input.
    fn patches(spec: &Self::Spec, input: &Self::Input) -> usize;

    /// Rows of inputs, in slices; `wanted` is asked before each, and gives up by returning false.
    ///
    /// # Errors
    /// When the backend fails, or it is not wanted any more.
    fn rows_of(&mut self, inputs: &[&Self::Input], wanted: &dyn Fn() -> bool) -> Result<Vec<Self::Rows>>;

    /// Bytes of rows.
    fn bytes(rows: &Self::Rows) -> u64;

    /// An input in a few words.
    fn told(input: &Self::Input) -> String;
}

impl Sense for Eyes {
    type Spec = VisionSpec;
    type Input = Picture;
    type Rows = PictureRows;
    const NAME: &'static str = "pictures";

    fn of(source: &VisionSource, spec: VisionSpec, backend: &dyn Backend) -> Result<Eyes> {
        Eyes::of(source, spec, backend)
    }

    fn check(spec: &VisionSpec, picture: &Picture) -> Result<()> {
        spec.layout(picture.size()).map(drop).map_err(|e| Error::InvalidRequest(e.to_string()))
    }

    fn form(picture: &Picture) -> String {
        picture.size().to_string()
    }

    fn content(picture: &Picture, out: &mut Vec<u8>) {
        out.extend_from_slice(picture.rgb());
    }

    fn patches(spec: &VisionSpec, picture: &Picture) -> usize {
        spec.layout(picture.size()).map_or(0, |layout| layout.patches())
    }

    fn rows_of(&mut self, pictures: &[&Picture], wanted: &dyn Fn() -> bool) -> Result<Vec<PictureRows>> {
        self.encode_while(pictures, wanted)
    }

    fn bytes(rows: &PictureRows) -> u64 {
        rows.bytes()
    }

    fn told(picture: &Picture) -> String {
        format!("a picture of {}", picture.size())
    }
}
