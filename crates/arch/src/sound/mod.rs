//! Models that hear: an encoder and a projector beside the language model, as data.
//!
//! A sound becomes log mel spectra ([`MelRule`]), two convolutions make rows of them, blocks as those of pictures
//! ([`VisionEncoder`]) let these see one another, and a [`Projector`] makes rows of the language model. Tensors have the
//! canonical names of [`crate::vision`]; beside them there are `v.conv1` and `v.conv2`, each over three frames.

mod families;
mod family;
mod layout;
mod lookup;
mod mmproj;
mod whisper;

use crate::{
    spec::Act,
    vision::{Projector, PromptRule, VisionEncoder},
};
use lamina_sound::MelRule;

pub use family::SoundFamily;
pub use layout::{SoundLayout, SoundPiece};

/// All that turns a sound into rows of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct SoundSpec {
    /// From samples to spectra.
    pub mel: MelRule,
    /// Nonlinearity behind each of the two convolutions, of which the second takes every other frame.
    pub act: Act,
    /// From frames to rows; its learned places are a row for each frame of a piece.
    pub encoder: VisionEncoder,
    /// Rows of the encoder whose mean becomes one.
    pub mean: usize,
    /// From means to rows of the language model.
    pub projector: Projector,
    /// What stands in the prompt.
    pub prompt: PromptRule,
}
