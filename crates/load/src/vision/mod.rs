//! Pictures on a backend: the chain of an encoder's plans, and what the host does between them.

mod blocks;
mod encoder;
mod eyes;
mod fold;
mod order;
mod places;
mod stage;

pub use encoder::{IMAGE_CACHE, PictureEncoder};
pub use eyes::{Eyes, PictureRows};
