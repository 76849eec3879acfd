//! The models of a server: which there are, which are in memory, who uses them.

mod directory;
mod facts;
mod lease;
mod live;
mod load;
mod registry;
mod slot;
mod slot_texts;
mod text_room;
mod time;

pub use facts::{ModelFacts, VisionFacts};
pub use lease::Lease;
pub use live::LiveModel;
pub use registry::Registry;
pub use slot::{ModelSlot, Phase};
pub use slot_texts::SlotText;
pub use text_room::TextRoom;

pub use time::{now, rfc3339};
