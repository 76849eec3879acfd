//! Pictures in requests, in the one form that all dialects bring them into, until they are bytes of a file.

mod data_url;
mod part;
mod pool;
mod shrink;

pub use data_url::{inline, is_inline, refused};
pub use part::{SentPicture, content, in_base64, joined, picture_part, take_pictures};
pub use pool::PicturePool;
pub use shrink::shrunk;
