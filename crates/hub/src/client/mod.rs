//! What fetches: requests to the hub, and files in pieces that survive every kind of break.

mod digest;
mod pace;
mod partial_file;
mod ranges;
mod remote;
mod transfer;

pub use digest::{Checksum, text_digest};
pub use pace::Pace;
pub use partial_file::PartialFile;
pub use ranges::ByteRanges;
pub use remote::{FileFacts, HubQuestion, Remote};
pub use transfer::{Counter, Transfer};
