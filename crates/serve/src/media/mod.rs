//! Pictures and sounds in requests, in the one form that all dialects bring them into, until they are pixels and samples.

mod data_url;
mod kind;
mod part;
mod pool;
mod shrink;

pub use data_url::{beginning, inline, is_inline};
pub use kind::{DecodedMedia, MediaKind, MediaReader};
pub use part::{SentMedia, content, in_base64, joined, picture_part, take_media};
pub use pool::MediaPool;
pub use shrink::shrunk;
