//! Pictures and sounds on a backend: the chain of an encoder's plans, what the host does between them, and the thread that runs them.

mod blocks;
mod ears;
mod encoder_room;
mod eyes;
mod fold;
mod job;
mod order;
mod picture_encoder;
mod picture_rows;
mod places;
mod row_cache;
mod row_encoder;
mod search;
mod sense;
mod sizes;
mod slices;
mod sound_encoder;
mod stage;
mod worker;

pub use ears::{Ears, SoundRows};
pub(crate) use encoder_room::{encoder_bytes, taken_by_encoders};
pub use eyes::Eyes;
pub use job::{EncodeJob, PictureJob, SoundJob};
pub use picture_encoder::PictureEncoder;
pub use picture_rows::{CutPicture, PictureRows};
pub use row_encoder::RowEncoder;
pub(crate) use search::find_encoder;
pub use search::vision_of;
pub use sense::Sense;
pub(crate) use sizes::picture_parts;
pub use sound_encoder::{SoundEncoder, hearing_of};
pub use worker::EncoderCounts;
