//! Pictures on a backend: the chain of an encoder's plans, and what the host does between them.

mod blocks;
mod encoder;
mod eyes;
mod fold;
mod order;
mod places;
mod search;
mod sizes;
mod stage;

pub use encoder::{EncodedPicture, PictureEncoder};
pub use eyes::{Eyes, PictureRows};
pub(crate) use search::find_encoder;
pub(crate) use sizes::picture_parts;
