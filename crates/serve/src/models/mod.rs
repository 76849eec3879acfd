//! The models of a server: which there are, which are in memory, who uses them.

mod directory;
mod facts;
mod hub_refusal;
mod lease;
mod library;
mod library_calls;
mod live;
mod load;
mod origin_slots;
mod pull;
mod registry;
mod slot;
mod slot_texts;
mod text_room;
mod time;

pub use facts::{ModelFacts, VisionFacts};
pub use lease::Lease;
pub use live::LiveModel;
pub use pull::PullRun;
pub use registry::Registry;
pub use slot::{ModelSlot, Phase};
pub use slot_texts::SlotText;
pub use text_room::TextRoom;

pub use time::{now, rfc3339};
